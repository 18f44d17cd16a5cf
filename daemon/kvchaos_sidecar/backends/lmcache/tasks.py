"""Calls of an adapter, made in threads of its own: one that never returns holds up nothing but its kind."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar

_T = TypeVar("_T")

_EVENT_BYTES = 4096

_log = logging.getLogger(__name__)


class AdapterThread:
    """Makes calls one after the other. A daemon thread: one that hangs does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def post(self, call: Callable[[], None]) -> None:
        """Has ``call`` made, when those before it have returned."""
        self._calls.put(call)

    async def call(self, call: Callable[[], _T]) -> _T:
        """The value of ``call()``."""
        answer: Answer[_T] = Answer()
        self.post(partial(answer.give_value_of, call))
        return await answer.future

    def stop(self) -> None:
        """Ends the thread once the calls asked for have returned."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:
                _log.exception("a call of an LMCache adapter failed")


class Answer(Generic[_T]):
    """A future of the running loop, completed from another thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[_T] = self._loop.create_future()

    def give_value_of(self, call: Callable[[], _T]) -> None:
        """Completes it with the value of ``call()`` or with what that raises."""
        try:
            value = call()
        except Exception as error:
            self.give_error(error)
        else:
            self.give(value)

    def give(self, value: _T) -> None:
        """Completes it."""
        self._complete(lambda: self.future.set_result(value))

    def give_error(self, error: Exception) -> None:
        """Fails it."""
        self._complete(lambda: self.future.set_exception(error))

    def _complete(self, complete: Callable[[], None]) -> None:
        def complete_unless_cancelled() -> None:
            if not self.future.done():
                complete()

        with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            self._loop.call_soon_threadsafe(complete_unless_cancelled)


class TaskFamily(Generic[_T]):
    """One of an adapter's three families of tasks: submitted in a thread, and collected there on an event."""

    def __init__(
        self,
        thread: AdapterThread,
        event_descriptor: int,
        collect: Callable[[Collection[int]], Mapping[int, _T]],
    ) -> None:
        """
        Args:
            thread: makes every call of this family, so that a task is known before it is collected.
            event_descriptor: readable when tasks have completed.
            collect: what those among the pending task ids have come to that have completed.
        """
        self._thread = thread
        self._event_descriptor = event_descriptor
        self._collect = collect
        self._pending: dict[int, Answer[_T]] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(event_descriptor, self._on_event)

    async def run(self, submit: Callable[[], int]) -> _T:
        """What the submitted task comes to. Waits for as long as it takes."""
        answer: Answer[_T] = Answer()
        self._thread.post(partial(self._submit, submit, answer))
        return await answer.future

    def stop(self) -> None:
        """Hears of no more events. Tasks that have not completed never will."""
        self._loop.remove_reader(self._event_descriptor)

    def _submit(self, submit: Callable[[], int], answer: Answer[_T]) -> None:
        try:
            self._pending[submit()] = answer
        except Exception as error:
            answer.give_error(error)

    def _on_event(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._event_descriptor, _EVENT_BYTES)
        self._thread.post(self._collect_completed)

    def _collect_completed(self) -> None:
        for task_id, value in self._collect(self._pending.keys()).items():
            answer = self._pending.pop(task_id, None)
            if answer is not None:
                answer.give(value)
