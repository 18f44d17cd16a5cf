"""Bytes that may be in use at one time, and a line of those who wait for some."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate


class ByteBudget:
    """Serves takers in the order in which they came, so that small ones cannot starve a large one.

    Attributes:
        total_bytes: what all takers together may hold.
        used_bytes: what they hold now.
    """

    def __init__(self, total_bytes: int, patience_s: float) -> None:
        """``patience_s``: how long a taker waits for others to give back, in seconds."""
        self.total_bytes = total_bytes
        self.used_bytes = 0
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def take(self, sizes: Sequence[int]) -> int:
        """Takes what the first n of ``sizes`` add up to, and returns n.

        That is as many as the whole budget can hold, or 0 when too little was given back in time. Each of
        them goes back through :meth:`give_back`.
        """
        fitting = [total for total in accumulate(sizes) if total <= self.total_bytes]
        if not fitting or not await self._take(fitting[-1]):
            return 0
        return len(fitting)

    def give_back(self, size: int) -> None:
        """Gives ``size`` bytes back. Callable from any thread."""
        with self._lock:
            self.used_bytes -= size
            waited_for = bool(self._line)
        if waited_for and self._loop is not None:
            with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._serve_line)

    async def _take(self, need: int) -> bool:
        self._loop = asyncio.get_running_loop()
        ready = self._loop.create_future()
        with self._lock:
            if not self._line and self._charge(need):
                return True
            self._line.append((need, ready))
        try:
            async with asyncio.timeout(self._patience_s):
                await ready
        except TimeoutError:
            self._leave(need, ready)
            return False
        except asyncio.CancelledError:
            self._leave(need, ready)
            raise
        return True

    def _charge(self, need: int) -> bool:
        if self.used_bytes + need > self.total_bytes:
            return False
        self.used_bytes += need
        return True

    def _serve_line(self) -> None:
        with self._lock:
            while self._line:
                need, ready = self._line[0]
                if not ready.cancelled():
                    if not self._charge(need):
                        return
                    ready.set_result(None)
                self._line.popleft()

    def _leave(self, need: int, ready: asyncio.Future[None]) -> None:
        if ready.cancelled():
            self._serve_line()
        else:  # served in the moment in which it gave up
            self.give_back(need)
