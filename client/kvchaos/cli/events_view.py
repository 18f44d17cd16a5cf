"""Injected faults for a person."""

from __future__ import annotations

from collections.abc import Sequence

from kvchaos.cli.plain import iso
from kvchaos.v1 import control_pb2

HEADINGS = ("time", "client", "session", "rule", "reason", "fault", "op", "batch", "positions", "keys")
WIDTHS = (24, 16, 8, 12, 10, 5, 5, 5, 12, 12)
"""Of the columns, where the rows are not all known yet."""
SHOWN_POSITIONS = 8


def event_row(event: control_pb2.DropEvent) -> Sequence[object]:
    """One event as a row under HEADINGS."""
    return (
        iso(event.time),
        event.client_name,
        event.session,
        event.rule,
        event.reason,
        event.fault,
        event.operation,
        event.batch_size,
        shortened(event.positions),
        " ".join(event.sample_keys),
    )


def shortened(positions: Sequence[int]) -> str:
    """The first few positions, and how many more there are."""
    text = ",".join(map(str, positions[:SHOWN_POSITIONS]))
    more = len(positions) - SHOWN_POSITIONS
    return f"{text} and {more} more" if more > 0 else text
