"""What a subcommand is."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Protocol

from kvchaos.cli.output import Output


class Command(Protocol):
    """A module under ``kvchaos.cli.commands``."""

    NAME: str
    """The word on the command line."""
    HELP: str
    """One line for the list of commands."""

    def configure(self, parser: ArgumentParser) -> None:
        """Adds the subcommand's own arguments."""

    def run(self, arguments: Namespace, output: Output) -> None:
        """Does it. Raises an error of kvchaos.errors when it cannot."""
