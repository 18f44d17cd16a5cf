"""Calls that wait for their answer on the handoff connection."""

from __future__ import annotations

import itertools
import logging
import math
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import grpc

from kvchaos.answers import Outcome
from kvchaos.v1 import handoff_pb2

logger = logging.getLogger(__name__)

MAX_KEYS = 1024
"""The answer to so many keys fits into a packet, whatever it says."""

FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "LookupAndLock": "lookup_and_lock",
        "Unlock": "unlock",
        "Load": "load",
        "PrepareStore": "prepare_store",
        "CommitStore": "commit_store",
    }
)
"""The calls that can be made in packets, with the name of their field there."""

Done = Callable[[Outcome], None]

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_LATE = Outcome(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", None)


class _Waiting(NamedTuple):
    deadline: float
    done: Done


class PacketCalls:
    """The calls that have no answer yet, with one thread that ends those whose time is up.

    Args:
        on_late: told the id of a call that was given up, before its ``done``.
        clock: seconds that only grow.
    """

    def __init__(self, on_late: Callable[[int], None], clock: Callable[[], float]) -> None:
        self._on_late = on_late
        self._clock = clock
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._waiting: dict[int, _Waiting] = {}
        self._wakes_at = -math.inf
        self._failure: Outcome | None = None
        self._thread = threading.Thread(target=self._watch, name="kvchaos-deadlines", daemon=True)
        self._thread.start()

    def open(self, timeout_s: float, done: Done) -> int | None:
        """The id of a new call, which has ``timeout_s`` to be answered; None when no answer can come."""
        deadline = self._clock() + timeout_s
        with self._changed:
            if self._failure is not None:
                return None
            call_id = next(self._ids)
            self._waiting[call_id] = _Waiting(deadline, done)
            if deadline < self._wakes_at:
                self._changed.notify()
        return call_id

    def withdraw(self, call_id: int) -> bool:
        """Forgets a call that could not be sent. False when it has ended already."""
        return self._take(call_id) is not None

    def answered(self, answer: handoff_pb2.Answer) -> None:
        """Ends the call that ``answer`` belongs to, if it still waits."""
        waiting = self._take(answer.call_id)
        if waiting is not None:
            _tell(waiting.done, _outcome(answer))

    def close(self, failure: Outcome) -> None:
        """Ends every call with ``failure``; there will be no more. Idempotent."""
        with self._changed:
            if self._failure is not None:
                return
            self._failure = failure
            left, self._waiting = self._waiting, {}
            self._changed.notify()
        for waiting in left.values():
            _tell(waiting.done, failure)

    def _take(self, call_id: int) -> _Waiting | None:
        with self._changed:
            return self._waiting.pop(call_id, None)

    def _watch(self) -> None:
        while (late := self._next_late()) is not None:
            for call_id, waiting in late.items():
                self._on_late(call_id)
                _tell(waiting.done, _LATE)

    def _next_late(self) -> dict[int, _Waiting] | None:
        """Waits for calls whose time is up, and takes them; None at the end."""
        with self._changed:
            while self._failure is None:
                now = self._clock()
                late = {number: call for number, call in self._waiting.items() if call.deadline <= now}
                if late:
                    for call_id in late:
                        del self._waiting[call_id]
                    return late
                self._wakes_at = min((call.deadline for call in self._waiting.values()), default=math.inf)
                self._changed.wait(None if math.isinf(self._wakes_at) else self._wakes_at - now)
            return None


def wrap(method: str, request: Any) -> handoff_pb2.Call | None:
    """A call for a packet, without its id; None when it has to be made by gRPC."""
    if method not in FIELDS:
        return None
    entries = request.written_bytes if method == "CommitStore" else request.keys.chunk_hash
    if len(entries) > MAX_KEYS:
        return None
    call = handoff_pb2.Call()
    getattr(call, FIELDS[method]).CopyFrom(request)
    return call


def _tell(done: Done, outcome: Outcome) -> None:
    try:
        done(outcome)
    except Exception:
        logger.exception("taking the outcome of a call failed")


def _outcome(answer: handoff_pb2.Answer) -> Outcome:
    kind = answer.WhichOneof("response")
    if kind is None:
        return Outcome(grpc.StatusCode.UNKNOWN, "the daemon sent an empty answer", None)
    response: Any = getattr(answer, kind)
    if kind == "failure":
        return Outcome(_CODES.get(response.status_code, grpc.StatusCode.UNKNOWN), response.message, None)
    return Outcome(grpc.StatusCode.OK, "", response)
