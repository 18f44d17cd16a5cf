"""Unlocking in the background, again and again until it is done or there is nothing left to unlock."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from kvchaos.backoff import Backoff
from kvchaos.client import L2Client
from kvchaos.errors import KVChaosError, RequestRefused
from kvchaos.keys import MAX_BATCH_KEYS, ObjectKey


class _Unlock(NamedTuple):
    session_id: str
    keys: Sequence[ObjectKey]


class Unlocker:
    """Never loses an unlock while its session lives; a session that has ended holds no locks.

    Args:
        backoff: delays between attempts.
        chance: source of their jitter.
    """

    def __init__(self, client: L2Client, backoff: Backoff, chance: random.Random) -> None:
        self._client = client
        self._backoff = backoff
        self._chance = chance
        self._changed = threading.Condition()
        self._waiting: deque[_Unlock] = deque()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="kvchaos-unlock", daemon=True)
        self._thread.start()

    @property
    def pending_keys(self) -> int:
        """Keys that are still to be unlocked."""
        with self._changed:
            return sum(len(unlock.keys) for unlock in self._waiting)

    def submit(self, keys: Sequence[ObjectKey]) -> None:
        """Has ``keys`` unlocked, soon. Does not wait."""
        session_id = self._client.session_id
        if not session_id:
            return
        with self._changed:
            for start in range(0, len(keys), MAX_BATCH_KEYS):
                self._waiting.append(_Unlock(session_id, keys[start : start + MAX_BATCH_KEYS]))
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Ends the thread; the end of the session releases what is left. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        failures = 0
        while (unlock := self._next()) is not None:
            if self._is_over(unlock):
                failures = 0
                self._forget(unlock)
            else:
                failures += 1
                self._pause(self._backoff.delay_s(failures, self._chance))

    def _next(self) -> _Unlock | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting)
            return None if self._closed else self._waiting[0]

    def _is_over(self, unlock: _Unlock) -> bool:
        if unlock.session_id != self._client.session_id:
            return True
        try:
            self._client.unlock(unlock.keys).result()
        except (RequestRefused, ValueError):
            return True
        except KVChaosError:
            return unlock.session_id != self._client.session_id
        return True

    def _forget(self, unlock: _Unlock) -> None:
        with self._changed:
            self._waiting.popleft()

    def _pause(self, delay_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, delay_s)
