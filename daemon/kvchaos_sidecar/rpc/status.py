"""What the control service reports about the daemon, and who knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from google.protobuf.timestamp_pb2 import Timestamp

from kvchaos.v1 import control_pb2
from kvchaos_sidecar.rules.governor import FaultSnapshot

SHOWN_RULES = 10
"""Names of rules in the mark."""


class StatusSource(Protocol):
    """The part of the daemon that carries the traffic. None of this may wait for the traffic."""

    @property
    def started_at(self) -> float:
        """Start of the daemon, in seconds since the epoch."""

    @property
    def evaluated_total(self) -> int:
        """Keys judged since start, over all rules."""

    @property
    def fired_total(self) -> int:
        """Keys hit since start, over all rules."""

    @property
    def sessions_opened(self) -> int:
        """Sessions opened since start."""

    def sessions(self) -> Sequence[control_pb2.SessionStatus]:
        """The open sessions, oldest first."""

    async def backend_status(self) -> control_pb2.BackendStatus:
        """The store behind the proxy. May take as long as the store does; the caller bounds it."""


def warning(snapshot: FaultSnapshot) -> str:
    """The mark that this is a test instrument, and what it does now."""
    faults = (
        f"rate={snapshot.rate:g} seed={snapshot.seed} gap_indices={list(snapshot.gap_indices)} "
        f"gap_tail_ratios={list(snapshot.gap_tail_ratios)}"
    )
    if snapshot.rules:
        faults += f" rules={list(snapshot.rules[:SHOWN_RULES])}"
        faults += f" and {hidden} more" if (hidden := len(snapshot.rules) - SHOWN_RULES) > 0 else ""
    if snapshot.environment:
        faults += f" environment={snapshot.environment}"
    if snapshot.production_allowed:
        faults += " PRODUCTION ALLOWED"
    state = "HALTED" if snapshot.halted else "ACTIVE" if snapshot.armed else "IDLE"
    return f"kvchaos fault injection {state} ({faults}): test and diagnostic use only"


def timestamp(epoch_s: float) -> Timestamp:
    """A moment on the wire, from seconds since the epoch."""
    moment = Timestamp()
    moment.FromNanoseconds(round(epoch_s * 1e9))
    return moment
