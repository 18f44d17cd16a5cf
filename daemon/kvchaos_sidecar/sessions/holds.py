"""Calls of one session that are kept waiting on purpose."""

from __future__ import annotations

import asyncio
from math import isinf


class Holds:
    """Lets calls wait until their time is over or all of them are released. Belongs to the event loop."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self._closed = False

    @property
    def count(self) -> int:
        """Calls that wait now."""
        return len(self._waiting)

    async def wait(self, seconds: float) -> None:
        """Waits so long (for ever, if infinite), unless released before. Returns at once when closed."""
        if self._closed or seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        timer = None if isinf(seconds) else loop.call_later(seconds, _finish, future)
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)
            if timer is not None:
                timer.cancel()

    def release(self) -> None:
        """Ends the waiting of everybody who waits now."""
        for future in self._waiting:
            _finish(future)

    def close(self) -> None:
        """Releases everybody, and lets nobody wait from now on."""
        self._closed = True
        self.release()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
