"""Tasks that run beside the traffic for as long as the daemon does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine

log = logging.getLogger(__name__)


class Background:
    """Keeps tasks, reports the ones that fail, ends them all."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, name: str, work: Coroutine[None, None, None]) -> None:
        """Runs ``work``. When it fails, that is logged; nothing else ends."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Cancels what still runs and waits for its end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the task %s failed", task.get_name(), exc_info=error)


async def every(interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
    """Does ``work`` now and then after each interval, until cancelled. One failure does not end it."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("a periodic task failed")
        await asyncio.sleep(interval_s)
