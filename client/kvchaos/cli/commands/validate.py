"""``kvchaos validate``: checks a configuration file without a daemon."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from kvchaos.cli import offline
from kvchaos.cli.commands.get import show_fields
from kvchaos.cli.faults_view import show_warnings
from kvchaos.cli.output import Colour, Output

NAME = "validate"
HELP = "Check a configuration file or a file of rules, without a daemon. Lists every problem."


def configure(parser: ArgumentParser) -> None:
    """Adds the file."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the configuration file")


def run(arguments: Namespace, output: Output) -> None:
    """Checks the file and shows what it amounts to."""
    found = offline.validate(arguments.file)
    if not output.as_json:
        output.line(output.coloured(f"{arguments.file}: valid", Colour.GOOD))
        show_warnings(found.warnings, output)
    if found.fields or output.as_json:
        show_fields(found.fields, output)
