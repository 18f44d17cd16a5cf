"""Calls of one session that are kept waiting on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from math import isinf


class Holds:
    """Lets calls wait until their time is over or all of them are released. Belongs to the event loop."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], str] = {}
        self._closed = False

    @property
    def count(self) -> int:
        """Calls that wait now."""
        return len(self._waiting)

    async def wait(self, seconds: float, rule: str = "") -> None:
        """Waits so long (for ever, if infinite), unless released before. Returns at once when closed.

        ``rule`` is the one that wants it.
        """
        if self._closed or seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        timer = None if isinf(seconds) else loop.call_later(seconds, _finish, future)
        self._waiting[future] = rule
        try:
            await future
        finally:
            del self._waiting[future]
            if timer is not None:
                timer.cancel()

    def release(self) -> None:
        """Ends the waiting of everybody who waits now."""
        self._release(list(self._waiting))

    def release_rules(self, rules: Collection[str]) -> None:
        """Ends the waiting that these rules want."""
        self._release([future for future, rule in self._waiting.items() if rule in rules])

    def close(self) -> None:
        """Releases everybody, and lets nobody wait from now on."""
        self._closed = True
        self.release()

    def _release(self, futures: Collection[asyncio.Future[None]]) -> None:
        for future in futures:
            _finish(future)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
