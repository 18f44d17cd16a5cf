"""The most recent injected faults, kept and as they happen."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby

from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.verdict import Hit, Verdict

SAMPLE_KEYS = 3


@dataclass(frozen=True, slots=True)
class DropEvent:
    """The hits of one rule in one batch, for one reason; or something that is not an injected fault."""

    sequence: int
    """Counts from 1, without gaps."""
    time: float
    """Seconds since the epoch."""
    session: str
    client_name: str
    rule: str
    reason: str
    fault: str
    operation: str
    batch_size: int
    positions: Sequence[int]
    """Ascending."""
    sample_keys: Sequence[str]
    """Short keys of the first few positions."""
    generation: int


@dataclass(frozen=True, slots=True)
class Watched:
    """An event as a watcher sees it."""

    event: DropEvent
    missed: int
    """Events that this watcher missed just before this one."""


class Journal:
    """A ring of events. Belongs to the event loop's thread; recording never waits."""

    def __init__(self, clock: Clock, capacity: int = 1000, watcher_capacity: int = 256) -> None:
        """Keeps ``capacity`` events, and ``watcher_capacity`` more for each watcher that is behind."""
        self._clock = clock
        self._events: deque[DropEvent] = deque(maxlen=capacity)
        self._watcher_capacity = watcher_capacity
        self._watchers: set[Watcher] = set()
        self._sequence = 0

    def record(self, call: Call, verdict: Verdict) -> None:
        """Notes what a verdict did to a call; one event for each rule and reason that hit."""
        for (rule, reason), hits in groupby(sorted(verdict.hits, key=_rule_and_reason), _rule_and_reason):
            self._keep(self._event(call, verdict.generation, rule, reason, list(hits)))

    def note(self, reason: str, *, rule: str = "", call: Call | None = None, count: int = 0) -> None:
        """Notes something that is not an injected fault: "capped", "expired", "halted" or "resumed".

        ``count``: positions concerned, of ``call``.
        """
        self._sequence += 1
        self._keep(
            DropEvent(
                sequence=self._sequence,
                time=self._clock.time(),
                session=call.session if call else "",
                client_name=call.client_name if call else "",
                rule=rule,
                reason=reason,
                fault="",
                operation=call.operation if call else "",
                batch_size=count,
                positions=(),
                sample_keys=(),
                generation=0,
            )
        )

    def _keep(self, event: DropEvent) -> None:
        self._events.append(event)
        for watcher in self._watchers:
            watcher.offer(event)

    def recent(self, limit: int = 0) -> Sequence[DropEvent]:
        """The newest ``limit`` events that are kept, oldest first; 0 for all of them."""
        events = tuple(self._events)
        return events[-limit:] if limit else events

    @property
    def forgotten(self) -> int:
        """Events that the ring no longer holds."""
        return self._sequence - len(self._events)

    def watch(self) -> Watcher:
        """Sees every event from now on, until it is closed. Use it in ``with``."""
        watcher = Watcher(self._watcher_capacity, self._watchers.discard)
        self._watchers.add(watcher)
        return watcher

    def _event(self, call: Call, generation: int, rule: str, reason: str, hits: Sequence[Hit]) -> DropEvent:
        self._sequence += 1
        positions = tuple(hit.position for hit in hits)
        return DropEvent(
            sequence=self._sequence,
            time=self._clock.time(),
            session=call.session,
            client_name=call.client_name,
            rule=rule,
            reason=reason,
            fault=hits[0].fault.kind,
            operation=call.operation,
            batch_size=len(call.keys),
            positions=positions,
            sample_keys=tuple(
                call.keys[position].short() for position in positions[:SAMPLE_KEYS] if call.keys
            ),
            generation=generation,
        )


class Watcher(AbstractContextManager["Watcher"], AsyncIterator[Watched]):
    """A bounded queue of events. While it is full, new events are counted and forgotten."""

    def __init__(self, capacity: int, on_close: Callable[[Watcher], None]) -> None:
        self._queue: asyncio.Queue[Watched] = asyncio.Queue(capacity)
        self._on_close = on_close
        self._missed = 0

    def offer(self, event: DropEvent) -> None:
        """Takes an event, if there is room."""
        if self._queue.full():
            self._missed += 1
        else:
            self._queue.put_nowait(Watched(event, self._missed))
            self._missed = 0

    async def __anext__(self) -> Watched:
        return await self._queue.get()

    def __exit__(self, *exception: object) -> None:
        self._on_close(self)


def _rule_and_reason(hit: Hit) -> tuple[str, str]:
    return hit.rule, hit.reason
