"""``kvchaos watch``: injected faults as they happen."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from itertools import islice

from kvchaos.cli.connection import connect, target_of
from kvchaos.cli.events_view import HEADINGS, WIDTHS, event_row
from kvchaos.cli.output import Output
from kvchaos.cli.plain import plain
from kvchaos.cli.values import positive_count
from kvchaos.v1 import control_pb2

NAME = "watch"
HELP = "Show injected faults as they happen, until interrupted. With --json one line for each."


def configure(parser: ArgumentParser) -> None:
    """Adds the number of events to wait for."""
    parser.add_argument("--count", type=positive_count, metavar="N", help="end after N events")


def run(arguments: Namespace, output: Output) -> None:
    """Follows the daemon's events."""
    with connect(arguments) as client, closing(client.watch_drops()) as events:
        if not output.as_json:
            output.line(f"watching {target_of(arguments)}; press Ctrl-C to end")
            output.row(HEADINGS, WIDTHS)
        try:
            for watched in islice(events, arguments.count):
                _show(watched, output)
        except KeyboardInterrupt:
            return


def _show(watched: control_pb2.WatchDropsResponse, output: Output) -> None:
    if output.as_json:
        output.json_line(plain(watched))
        return
    if watched.missed:
        output.line(f"({watched.missed} events missed)")
    output.row(event_row(watched.event), WIDTHS)
