"""What is recorded, and the line that each event becomes. Lines are made on the recorder's thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kvchaos.keys import ObjectKey
from kvchaos.recordings.batch import batch_id
from kvchaos.results import Result
from kvchaos_sidecar.recording.checksums import HeldObjects
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.governor import FaultSnapshot
from kvchaos_sidecar.rules.strike import Strike
from kvchaos_sidecar.rules.verdict import Verdict

MAX_REMEMBERED = 1 << 16
"""Batches whose calls are counted; the one that came first is forgotten first, and counts from 1 again."""

Line = Mapping[str, Any]


class Occurrences:
    """How often each session has made a call of one operation with the same keys."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, str, str], int] = {}

    def count(self, session: int, operation: str, batch: str) -> int:
        """The number of this call."""
        place = (session, operation, batch)
        number = self._counts.get(place, 0) + 1
        self._counts[place] = number
        if len(self._counts) > MAX_REMEMBERED:
            del self._counts[next(iter(self._counts))]
        return number


class Event(Protocol):
    """Something that is recorded."""

    @property
    def weight(self) -> int:
        """How much memory it keeps, in keys."""

    def line(self, occurrences: Occurrences) -> Line:
        """What is written."""

    def discard(self) -> None:
        """Gives back what it holds, written or not."""


@dataclass(frozen=True, slots=True)
class _Plain:
    """An event that holds nothing."""

    @property
    def weight(self) -> int:
        return 1

    def discard(self) -> None:
        return


@dataclass(frozen=True, slots=True)
class CallJudged(_Plain):
    """A call begins."""

    time: float
    call: Call
    verdict: Verdict | None

    @property
    def weight(self) -> int:
        return 1 + len(self.call.keys)

    def line(self, occurrences: Occurrences) -> Line:
        call, batch = self.call, batch_id(self.call.keys)
        judged = {} if self.verdict is None else _judged(self.verdict)
        return {
            "type": "call",
            "time": self.time,
            "session": call.session_number,
            "id": call.session,
            "client": call.client_name,
            "seq": call.sequence,
            "op": call.operation.value,
            "keys": [_columns(key) for key in call.keys],
            "sizes": list(call.sizes),
            "batch": batch,
            "nth": occurrences.count(call.session_number, call.operation.value, batch),
            **judged,
        }


@dataclass(frozen=True, slots=True)
class CallEnded(_Plain):
    """A call ends, with results or a failure."""

    time: float
    call: Call
    results: Sequence[Result]
    failure: str = ""

    def line(self, occurrences: Occurrences) -> Line:
        return {
            "type": "outcome",
            "time": self.time,
            "session": self.call.session_number,
            "seq": self.call.sequence,
            "results": [result.label for result in self.results],
            **({"failed": self.failure} if self.failure else {}),
        }


@dataclass(frozen=True, slots=True)
class BytesMoved(_Plain):
    """The bytes of a load have moved."""

    time: float
    session_number: int
    sequence: int
    failed: Sequence[int]

    def line(self, occurrences: Occurrences) -> Line:
        return {
            "type": "moved",
            "time": self.time,
            "session": self.session_number,
            "seq": self.sequence,
            "failed": list(self.failed),
        }


@dataclass(frozen=True, slots=True)
class StoreCommitted:
    """A store was published, or failed to be."""

    time: float
    session_number: int
    sequence: int
    keys: Mapping[int, ObjectKey]
    """As the store knows them, by position."""
    written: Sequence[int]
    stored: Mapping[int, int]
    """Bytes of those that are not published as they were written."""
    results: Sequence[Result] | None
    """None: the commit failed."""
    held: HeldObjects

    @property
    def weight(self) -> int:
        return 1 + len(self.keys)

    def line(self, occurrences: Occurrences) -> Line:
        results = self.results or ()
        stored = [
            self.stored.get(position, length)
            for position, length in zip(self.keys, self.written, strict=True)
        ]
        checksums = [
            self.held.checksum(position, length) if result is Result.OK and length else None
            for position, length, result in zip(self.keys, stored, results, strict=False)
        ]
        return {
            "type": "commit",
            "time": self.time,
            "session": self.session_number,
            "seq": self.sequence,
            "positions": list(self.keys),
            "keys": [_columns(key) for key in self.keys.values()],
            "written": list(self.written),
            "stored": stored,
            "results": [result.label for result in results],
            "checksums": checksums,
            **({"failed": "the commit failed"} if self.results is None else {}),
        }

    def discard(self) -> None:
        self.held.close()


@dataclass(frozen=True, slots=True)
class SessionEnded(_Plain):
    """A session ends."""

    time: float
    session_number: int
    reason: str
    locks: int
    """Locks that it still held."""

    def line(self, occurrences: Occurrences) -> Line:
        return {
            "type": "session_end",
            "time": self.time,
            "session": self.session_number,
            "reason": self.reason,
            "locks": self.locks,
        }


@dataclass(frozen=True, slots=True)
class FaultsChanged(_Plain):
    """Other rules are in force, or injection was halted or resumed."""

    time: float
    snapshot: FaultSnapshot

    def line(self, occurrences: Occurrences) -> Line:
        return {"type": "faults", "time": self.time, **faults_in_force(self.snapshot)}


@dataclass(frozen=True, slots=True)
class Lost(_Plain):
    """Events before this one were not recorded."""

    time: float
    events: int

    def line(self, occurrences: Occurrences) -> Line:
        return {"type": "lost", "time": self.time, "events": self.events}


@dataclass(frozen=True, slots=True)
class Ended(_Plain):
    """The recording is over."""

    time: float

    def line(self, occurrences: Occurrences) -> Line:
        return {"type": "end", "time": self.time}


def faults_in_force(snapshot: FaultSnapshot) -> Line:
    """The faults, as a line says them."""
    return {
        "generation": snapshot.generation,
        "halted": snapshot.halted,
        "fault_inject": {
            "rate": snapshot.rate,
            "seed": snapshot.seed,
            "gap_indices": list(snapshot.gap_indices),
            "gap_tail_ratios": list(snapshot.gap_tail_ratios),
        },
        "rules": list(snapshot.rules),
    }


def _judged(verdict: Verdict) -> Line:
    return {
        "generation": verdict.generation,
        "evaluated": dict(verdict.evaluated),
        "fired": [_fired(strike) for strike in verdict.strikes],
    }


def _fired(strike: Strike) -> Line:
    return {
        "rule": strike.rule,
        "fault": {strike.fault.kind: strike.fault.model_dump(mode="json", by_alias=True)},
        "positions": list(strike.positions),
        "reasons": list(map(str, strike.reasons)),
        "chances": [strike.chance(index) for index in range(len(strike.positions))],
    }


def _columns(key: ObjectKey) -> Sequence[Any]:
    chunk_hash, *rest = key
    return [chunk_hash.hex(), *rest]
