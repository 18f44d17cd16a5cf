"""Blocking calls beside an event loop: one hop to a thread for a whole batch, and nothing lost on cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from kvchaos_sidecar.backends.contract import BackendError

_T = TypeVar("_T")


class BlockingCalls:
    """A few threads of one backend, so that a store that hangs holds up neither the loop nor others."""

    def __init__(self, threads: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._closed = False

    async def run(self, call: Callable[[], _T], undo: Callable[[_T], None] | None = None) -> _T:
        """The value of ``call()``, made in a thread.

        When the caller is cancelled the call is made all the same; ``undo`` then gets the value that
        nobody waits for any more, in any thread.

        Raises:
            BackendError: the calls have been closed.
        """
        future = self.start(call)
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            if undo is not None:
                future.add_done_callback(_when_it_has_a_value(undo))
            raise

    def run_here(self, call: Callable[[], _T]) -> _T:
        """The value of ``call()``, which never waits, made on the calling thread.

        Raises:
            BackendError: the calls have been closed.
        """
        if self._closed:
            raise BackendError("the backend is closed")
        return call()

    def start(self, call: Callable[[], _T]) -> Future[_T]:
        """Begins ``call()`` in a thread without waiting for it.

        Raises:
            BackendError: the calls have been closed.
        """
        try:
            return self._executor.submit(call)
        except RuntimeError as error:
            raise BackendError("the backend is closed") from error

    def close(self) -> None:
        """Takes no more calls. Those asked for are still made, but not waited for. Idempotent."""
        self._closed = True
        self._executor.shutdown(wait=False)


def _when_it_has_a_value(undo: Callable[[_T], None]) -> Callable[[Future[_T]], None]:
    def done(future: Future[_T]) -> None:
        if future.exception() is None:
            undo(future.result())

    return done
