"""Waiting no longer than agreed for work that cannot be stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import BackendError

_T = TypeVar("_T")


class BoundedCalls:
    """Calls of an adapter that may never answer. The work goes on when its caller has stopped waiting."""

    def __init__(self, name: str, timeout_s: float) -> None:
        """
        Args:
            name: the adapter, for messages.
            timeout_s: how long a caller waits, in seconds.
        """
        self._name = name
        self._timeout_s = timeout_s
        self._work: set[asyncio.Task[Any]] = set()

    async def run(
        self, work: Coroutine[Any, Any, _T], abandoned: Callable[[_T], None] = lambda _value: None
    ) -> _T:
        """The value of ``work``. ``abandoned`` gets a value for which nobody waits any more.

        Raises:
            BackendError: it took too long, failed, or was ended by :meth:`close`.
        """
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        try:
            await asyncio.wait({task}, timeout=self._timeout_s)
        except asyncio.CancelledError:
            _when_it_has_a_value(task, abandoned)
            raise
        if not task.done():
            _when_it_has_a_value(task, abandoned)
            late = f"{self._name} did not answer within {self._timeout_s:g} s"
            raise BackendError(late, Result.TIMED_OUT)
        if task.cancelled():
            raise BackendError(f"{self._name} is closed")
        error = task.exception()
        if error is None or isinstance(error, BackendError):
            return task.result()
        raise BackendError(f"{self._name} failed: {error!r}", Result.IO_ERROR) from error

    async def close(self, patience_s: float) -> None:
        """Waits for the work under way, for ``patience_s`` seconds, and then ends it where it waits."""
        if self._work:
            await asyncio.wait(self._work, timeout=patience_s)
        for task in self._work:
            task.cancel()


def _when_it_has_a_value(task: asyncio.Task[_T], take: Callable[[_T], None]) -> None:
    def done(task: asyncio.Task[_T]) -> None:
        if not task.cancelled() and task.exception() is None:
            take(task.result())

    task.add_done_callback(done)
