"""The locks that one session holds on keys."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import Clock


@dataclass(slots=True)
class _Lock:
    count: int
    deadline: float


class LockTable:
    """Counts locks per key. A key that is not locked again within the time to live loses all its locks.

    Every lock that ends, for whatever reason, is named once to ``give_back``.
    """

    def __init__(
        self, clock: Clock, time_to_live_s: float, give_back: Callable[[Sequence[ObjectKey]], None]
    ) -> None:
        self._clock = clock
        self._time_to_live_s = time_to_live_s
        self._give_back = give_back
        self._locks: OrderedDict[ObjectKey, _Lock] = OrderedDict()
        self._total = 0
        self._closed = False

    @property
    def total(self) -> int:
        """Locks held, over all keys."""
        return self._total

    def acquire(self, keys: Sequence[ObjectKey]) -> None:
        """Adds one lock to each key and restarts its time to live; gives them back once closed."""
        if self._closed:
            self._end(keys)
            return
        deadline = self._clock.monotonic() + self._time_to_live_s
        for key in keys:
            held = self._locks.setdefault(key, _Lock(0, deadline))
            held.count += 1
            held.deadline = deadline
            self._locks.move_to_end(key)
        self._total += len(keys)

    def release(self, keys: Iterable[ObjectKey]) -> int:
        """Takes one lock from each key that has one. Returns how many were taken."""
        released = []
        for key in keys:
            held = self._locks.get(key)
            if held is None:
                continue
            held.count -= 1
            if held.count == 0:
                del self._locks[key]
            released.append(key)
        self._total -= len(released)
        self._end(released)
        return len(released)

    def expire(self) -> int:
        """Ends the locks whose time to live is over. Returns how many ended."""
        now = self._clock.monotonic()
        expired: list[ObjectKey] = []
        while self._locks:
            key, oldest = next(iter(self._locks.items()))
            if oldest.deadline > now:
                break
            del self._locks[key]
            expired += [key] * oldest.count
        self._total -= len(expired)
        self._end(expired)
        return len(expired)

    def close(self) -> None:
        """Ends every lock and keeps none from now on."""
        held = [key for key, lock in self._locks.items() for _ in range(lock.count)]
        self._locks.clear()
        self._total = 0
        self._closed = True
        self._end(held)

    def _end(self, keys: Sequence[ObjectKey]) -> None:
        if keys:
            self._give_back(keys)
