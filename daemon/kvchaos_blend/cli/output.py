"""Where the commands write: a person's view, JSON, and files."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType


def add_output_arguments(parser: ArgumentParser) -> None:
    """Adds the choice of an output."""
    parser.add_argument("--json", action="store_true", help="write the report as JSON")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report as JSON to FILE too")


def write(arguments: Namespace, document: dict[str, Any], view: RenderableType) -> None:
    """Writes what came of a command the way it was asked for."""
    text = json.dumps(document, indent=2)
    if arguments.report is not None:
        arguments.report.write_text(text + "\n")
    if arguments.json:
        print(text)
    else:
        Console().print(view)
