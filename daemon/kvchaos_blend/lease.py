"""The locks that one request holds in the store, released however the request ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import Any

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_blend.store import ChunkStore


class Lease:
    """Locks taken by lookups, given back once, after everything that was going on under them.

    A lookup whose answer never came may have locked its keys all the same, so they are unlocked too:
    a store ignores keys that the session has not locked.
    """

    def __init__(self, store: ChunkStore) -> None:
        self._store = store
        self._lookups: list[tuple[Sequence[ObjectKey], Future[list[Result]]]] = []
        self._work: list[Future[Any]] = []
        self._once = threading.Lock()
        self._unlocking: Future[int] | None = None

    def lookup(self, keys: Sequence[ObjectKey]) -> Future[list[Result]]:
        """Looks the keys up and locks those that are present."""
        lookup = self._store.lookup_and_lock(keys)
        self._lookups.append((keys, lookup))
        return lookup

    def covers(self, work: Future[Any]) -> None:
        """Has the locks held until ``work`` has ended."""
        self._work.append(work)

    def release(self) -> str:
        """Waits for the work under the locks and gives them back. Idempotent, never raises.

        Returns:
            Why the locks could not be given back; empty when they were.
        """
        wait(self._held_up_by())
        unlocking = self._unlock()
        error = unlocking.exception() if unlocking is not None else None
        return "" if error is None else str(error)

    def release_soon(self) -> None:
        """Gives the locks back as soon as the work under them has ended, without waiting for it."""
        held_up_by = self._held_up_by()
        for future in held_up_by:
            future.add_done_callback(lambda _: self._unlock() if all(f.done() for f in held_up_by) else None)

    def _held_up_by(self) -> list[Future[Any]]:
        return [lookup for _, lookup in self._lookups] + self._work

    def _unlock(self) -> Future[int] | None:
        with self._once:
            if self._unlocking is None:
                keys = [key for asked, lookup in self._lookups for key in _possibly_locked(asked, lookup)]
                self._unlocking = self._store.unlock(keys) if keys else None
            return self._unlocking


def _possibly_locked(keys: Sequence[ObjectKey], lookup: Future[list[Result]]) -> list[ObjectKey]:
    if lookup.exception() is not None:
        return list(keys)
    return [key for key, result in zip(keys, lookup.result(), strict=True) if result is Result.OK]
