"""What a module must have to be a command."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Protocol

FINE, FAILED, BAD_INPUT = 0, 1, 2


class Command(Protocol):
    """A module of this package with these names."""

    NAME: str
    """The word on the command line."""
    HELP: str
    """One line for the list of commands."""

    def configure(self, parser: ArgumentParser) -> None:
        """Adds the command's arguments."""

    def run(self, arguments: Namespace) -> int:
        """Does it and returns the exit code. Raises KVChaosError, ValueError or OSError on trouble."""
