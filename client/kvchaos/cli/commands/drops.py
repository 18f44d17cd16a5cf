"""``kvchaos drops``: the most recent injected faults."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kvchaos.cli.connection import connect
from kvchaos.cli.events_view import HEADINGS, event_row
from kvchaos.cli.output import Output
from kvchaos.cli.plain import plain
from kvchaos.cli.values import count

NAME = "drops"
HELP = "Show the most recent injected faults, oldest first."


def configure(parser: ArgumentParser) -> None:
    """Adds the limit."""
    parser.add_argument(
        "--limit", type=count, default=20, metavar="N", help="at most N; 0 for all kept (default: 20)"
    )


def run(arguments: Namespace, output: Output) -> None:
    """Asks the daemon and shows the events."""
    with connect(arguments) as client:
        response = client.list_drops(arguments.limit)
    if output.as_json:
        output.json(plain(response))
        return
    if not response.events:
        output.line("nothing was injected since the daemon started")
        return
    output.table(HEADINGS, [event_row(event) for event in response.events])
    if response.forgotten:
        output.line(f"({response.forgotten} older events are forgotten)")
