"""``kvchaos resume``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kvchaos.cli.connection import connect
from kvchaos.cli.faults_view import show_change
from kvchaos.cli.output import Output

NAME = "resume"
HELP = "End a halt."


def configure(parser: ArgumentParser) -> None:
    """No arguments of its own."""


def run(arguments: Namespace, output: Output) -> None:
    """Asks the daemon for it and shows what is in force."""
    with connect(arguments) as client:
        change = client.resume()
    show_change(change, output)
