"""Counting stored bytes the way LMCache's adapters count them."""

from __future__ import annotations

import threading
from collections import Counter

from kvchaos_sidecar.backends.contract import Usage


class Accounting:
    """Bytes stored and deleted through this process, in all and per cache salt. Thread-safe.

    Starts at 0 whatever the store holds already, and never goes below: deleting an object that another
    process stored frees bytes that were never counted.
    """

    def __init__(self, capacity_bytes: int = 0) -> None:
        self._capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        self._total_bytes = 0
        self._bytes_by_salt: Counter[str] = Counter()

    def stored(self, cache_salt: str, size: int) -> None:
        """An object of ``size`` bytes became visible."""
        with self._lock:
            self._total_bytes += size
            self._bytes_by_salt[cache_salt] += size

    def deleted(self, cache_salt: str, size: int) -> None:
        """An object of ``size`` bytes was deleted."""
        with self._lock:
            self._total_bytes = max(0, self._total_bytes - size)
            self._bytes_by_salt[cache_salt] -= size
            if self._bytes_by_salt[cache_salt] <= 0:
                del self._bytes_by_salt[cache_salt]

    def usage(self) -> Usage:
        """The counts now."""
        with self._lock:
            return Usage(self._total_bytes, self._capacity_bytes, dict(self._bytes_by_salt))
