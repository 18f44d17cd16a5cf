"""The locks that one session holds on keys."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import Clock


@dataclass(slots=True)
class _Lock:
    count: int
    deadline: float


class LockTable:
    """Counts locks per key. A key that is not locked again within the time to live loses all its locks."""

    def __init__(self, clock: Clock, time_to_live_s: float) -> None:
        self._clock = clock
        self._time_to_live_s = time_to_live_s
        self._locks: OrderedDict[ObjectKey, _Lock] = OrderedDict()
        self._total = 0

    @property
    def total(self) -> int:
        """Locks held, over all keys."""
        return self._total

    def acquire(self, keys: Iterable[ObjectKey]) -> None:
        """Adds one lock to each key and restarts its time to live."""
        deadline = self._clock.monotonic() + self._time_to_live_s
        for key in keys:
            held = self._locks.get(key)
            if held is None:
                self._locks[key] = _Lock(1, deadline)
            else:
                held.count += 1
                held.deadline = deadline
                self._locks.move_to_end(key)
            self._total += 1

    def release(self, keys: Iterable[ObjectKey]) -> int:
        """Takes one lock from each key that has one. Returns how many were taken."""
        released = 0
        for key in keys:
            held = self._locks.get(key)
            if held is None:
                continue
            held.count -= 1
            if held.count == 0:
                del self._locks[key]
            released += 1
        self._total -= released
        return released

    def expire(self) -> int:
        """Ends the locks whose time to live is over. Returns how many ended."""
        now = self._clock.monotonic()
        expired = 0
        while self._locks:
            key, oldest = next(iter(self._locks.items()))
            if oldest.deadline > now:
                break
            del self._locks[key]
            expired += oldest.count
        self._total -= expired
        return expired

    def clear(self) -> None:
        """Ends every lock."""
        self._locks.clear()
        self._total = 0
