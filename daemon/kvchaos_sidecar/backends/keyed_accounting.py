"""Counting stored bytes the way LMCache's native connectors (``resp`` and others) count them."""

from __future__ import annotations

import threading

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.backends.accounting import Accounting
from kvchaos_sidecar.backends.contract import Usage


class KeyedAccounting:
    """Remembers which keys were counted: a key counts once, until it is deleted through here. Thread-safe.

    What another process stored is not taken off when it is deleted, and what it deleted stays counted.
    """

    def __init__(self, capacity_bytes: int = 0) -> None:
        self._accounting = Accounting(capacity_bytes)
        self._lock = threading.Lock()
        self._sizes: dict[ObjectKey, int] = {}

    def stored(self, key: ObjectKey, size: int) -> None:
        """An object of ``size`` bytes became visible."""
        with self._lock:
            if key in self._sizes:
                return
            self._sizes[key] = size
        self._accounting.stored(key.cache_salt, size)

    def deleted(self, key: ObjectKey) -> None:
        """The object was deleted."""
        with self._lock:
            size = self._sizes.pop(key, None)
        if size is not None:
            self._accounting.deleted(key.cache_salt, size)

    def usage(self) -> Usage:
        """The counts now."""
        return self._accounting.usage()
