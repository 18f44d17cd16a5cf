"""``kvchaos catalogue``: ready rule files for faults that were seen in the field."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kvchaos.cli import offline
from kvchaos.cli.output import Output

NAME = "catalogue"
HELP = "List ready rules for faults that were seen in the field, or show one. Needs no daemon."


def configure(parser: ArgumentParser) -> None:
    """Adds the entry."""
    parser.add_argument("id", nargs="?", metavar="ID", help="show this one, for example F3")


def run(arguments: Namespace, output: Output) -> None:
    """Lists the catalogue, or writes one rule file."""
    if arguments.id:
        entry = offline.catalogue_entry(arguments.id)
        if output.as_json:
            output.json(dict(entry))
        else:
            output.line(str(entry["text"]).rstrip())
        return
    entries = offline.catalogue()
    if output.as_json:
        output.json([dict(entry) for entry in entries])
        return
    output.table(("id", "fault", "what the rules do"), [(e["id"], e["title"], e["does"]) for e in entries])
    output.line()
    output.line("kvchaos catalogue ID writes one; kvchaos rules add catalogue:ID --ttl 5m arms it")
