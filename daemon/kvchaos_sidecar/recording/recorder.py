"""Writes what happens to a file, on a thread of its own, behind a bounded queue."""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvchaos.errors import ConfigError
from kvchaos.recordings.reader import FORMAT
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import WriteLease
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.config.schema import Recording
from kvchaos_sidecar.recording.checksums import Budget, HeldObjects
from kvchaos_sidecar.recording.events import (
    BytesMoved,
    CallEnded,
    CallJudged,
    Ended,
    Event,
    FaultsChanged,
    Lost,
    Occurrences,
    SessionEnded,
    StoreCommitted,
)
from kvchaos_sidecar.recording.rotation import RotatingFile
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.governor import FaultSnapshot
from kvchaos_sidecar.rules.verdict import Verdict
from kvchaos_sidecar.sessions.session import EndReason, Session

MAX_QUEUED_KEYS = 1 << 18
"""What the queue holds, in keys of calls. What comes while it is full is not recorded."""
CLOSE_TIMEOUT_S = 3.0

log = logging.getLogger(__name__)


class Recorder:
    """Implements :class:`kvchaos_sidecar.recording.tape.Tape`. Belongs to the event loop's thread."""

    def __init__(
        self,
        settings: Recording,
        header: Callable[[], Mapping[str, Any]],
        clock: Clock,
        on_lost: Callable[[int], None],
        max_queued_keys: int = MAX_QUEUED_KEYS,
    ) -> None:
        """``header``: facts for the first line of each part. ``on_lost``: told how many events are lost, from
        any thread."""
        self._settings = settings
        self._header = header
        self._clock = clock
        self._on_lost = on_lost
        self._max_queued = max_queued_keys
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._offered = 0
        self._taken = 0
        self._lost = 0
        self._budget = Budget()
        self._occurrences = Occurrences()
        self._thread = threading.Thread(target=self._write_all, name="kvchaos-recorder", daemon=True)

    def start(self) -> None:
        """Begins the file. Raises ConfigError when it cannot be made."""
        path = Path(self._settings.path)
        try:
            self._file = RotatingFile(path, self._settings.max_bytes, self._settings.files, self._header_line)
        except OSError as error:
            raise ConfigError([f"recording.path: cannot write {path}: {error.strerror}"]) from None
        self._thread.start()

    def close(self) -> None:
        """Writes what is queued and ends the file, unless that takes too long."""
        if not self._thread.is_alive():
            return
        self._mark_lost()
        self._queue.put(Ended(self._clock.time()))
        self._queue.put(None)
        self._thread.join(CLOSE_TIMEOUT_S)

    def judged(self, call: Call, verdict: Verdict | None) -> None:
        """A call begins."""
        self._offer(CallJudged(self._clock.time(), call, verdict))

    def settled(self, call: Call, results: Sequence[Result]) -> None:
        """A call ends."""
        self._offer(CallEnded(self._clock.time(), call, tuple(results)))

    def failed(self, call: Call, error: BaseException) -> None:
        """A call fails, or is given up."""
        self._offer(CallEnded(self._clock.time(), call, (), type(error).__name__))

    def moved(self, session_number: int, sequence: int, failed: Sequence[int]) -> None:
        """The bytes of a load have moved."""
        self._offer(BytesMoved(self._clock.time(), session_number, sequence, tuple(failed)))

    def committing(
        self, session_number: int, sequence: int, grants: Mapping[int, WriteLease], written: Sequence[int]
    ) -> _Commit:
        """A store is about to be published."""
        return _Commit(self, session_number, sequence, grants, written)

    def session_ended(self, session: Session, reason: EndReason, locks: int) -> None:
        """A session ends, with so many locks held."""
        self._offer(SessionEnded(self._clock.time(), session.number, reason.value, locks))

    def faults_changed(self, snapshot: FaultSnapshot) -> None:
        """Other faults are in force."""
        self._offer(FaultsChanged(self._clock.time(), snapshot))

    def _offer(self, event: Event) -> None:
        if self._offered - self._taken + event.weight > self._max_queued:
            self._lost += 1
            self._on_lost(1)
            event.discard()
            return
        self._mark_lost()
        self._offered += event.weight
        self._queue.put(event)

    def _mark_lost(self) -> None:
        if self._lost:
            mark = Lost(self._clock.time(), self._lost)
            self._lost = 0
            self._offered += mark.weight
            self._queue.put(mark)

    def _write_all(self) -> None:
        unwritten = 0
        while (event := self._queue.get()) is not None:
            try:
                if unwritten:
                    self._append(Lost(self._clock.time(), unwritten))
                    unwritten = 0
                self._append(event)
            except OSError as error:
                if not unwritten:
                    log.warning("recording to %s failed: %s", self._settings.path, error.strerror)
                unwritten += 1
                self._on_lost(1)
            finally:
                event.discard()
                self._taken += event.weight
        self._file.close()

    def _append(self, event: Event) -> None:
        self._file.append(_encoded(event.line(self._occurrences)))

    def _header_line(self, part: int) -> bytes:
        return _encoded({"type": "header", "format": FORMAT, "part": part, **self._header()})


class _Commit:
    """Implements :class:`kvchaos_sidecar.recording.tape.CommitNote`."""

    def __init__(
        self,
        recorder: Recorder,
        session_number: int,
        sequence: int,
        grants: Mapping[int, WriteLease],
        written: Sequence[int],
    ) -> None:
        self._recorder = recorder
        self._session_number = session_number
        self._sequence = sequence
        self._keys = {position: lease.key for position, lease in grants.items()}
        self._written = tuple(written)
        self._held = HeldObjects(recorder._budget, grants)
        self._stored: dict[int, int] = {}
        self._results: Sequence[Result] | None = None

    def stored(self, lengths: Mapping[int, int]) -> None:
        """Positions of which only so many bytes are published."""
        self._stored |= lengths

    def settled(self, results: Sequence[Result]) -> None:
        """What became of each grant."""
        self._results = tuple(results)

    def close(self) -> None:
        """Records it."""
        self._recorder._offer(
            StoreCommitted(
                self._recorder._clock.time(),
                self._session_number,
                self._sequence,
                self._keys,
                self._written,
                self._stored,
                self._results,
                self._held,
            )
        )


def _encoded(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
