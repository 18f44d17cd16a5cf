"""``kvchaos halt``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kvchaos.cli.connection import connect
from kvchaos.cli.faults_view import show_change
from kvchaos.cli.output import Output

NAME = "halt"
HELP = "Stop all injection at once, until 'kvchaos resume'."


def configure(parser: ArgumentParser) -> None:
    """Adds the reason."""
    parser.add_argument("--reason", default="", metavar="TEXT", help="who or why, for log and status")


def run(arguments: Namespace, output: Output) -> None:
    """Asks the daemon for it and shows what is in force."""
    with connect(arguments) as client:
        change = client.halt(arguments.reason)
    show_change(change, output)
