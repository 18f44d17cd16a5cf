"""One store of a key at a time: adapters that overwrite would let the second writer win."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from kvchaos.keys import ObjectKey


class InFlight:
    """The keys that are being stored."""

    def __init__(self) -> None:
        self._stores: dict[ObjectKey, asyncio.Event] = {}

    @asynccontextmanager
    async def claim(self, keys: Collection[ObjectKey]) -> AsyncIterator[None]:
        """Waits until nobody else stores any of the keys, and keeps others waiting meanwhile."""
        while others := {self._stores[key] for key in keys if key in self._stores}:
            for other in others:
                await other.wait()
        done = asyncio.Event()
        self._stores.update(dict.fromkeys(keys, done))
        try:
            yield
        finally:
            for key in keys:
                del self._stores[key]
            done.set()
