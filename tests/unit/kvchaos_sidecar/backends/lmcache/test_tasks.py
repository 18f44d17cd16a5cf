"""Tasks and their completions meet, whatever comes first."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Collection

import pytest

from kvchaos_sidecar.backends.lmcache.tasks import AdapterThread, TaskFamily


class Tasks:
    """An adapter's side of one family."""

    def __init__(self) -> None:
        self.event = os.eventfd(0, os.EFD_NONBLOCK)
        self._completed: dict[int, str] = {}
        self._lock = threading.Lock()
        self._next = 0

    def submit(self, done_already: bool = False) -> int:
        self._next += 1
        if done_already:
            self.complete(self._next)
        return self._next

    def complete(self, *tasks: int) -> None:
        with self._lock:
            self._completed |= {task: f"value of {task}" for task in tasks}
        os.eventfd_write(self.event, 1)

    def collect(self, _pending: Collection[int]) -> dict[int, str]:
        with self._lock:
            completed, self._completed = self._completed, {}
        return completed


def test_each_call_gets_the_value_of_its_task() -> None:
    async def scenario() -> None:
        tasks, thread = Tasks(), AdapterThread("test")
        family = TaskFamily(thread, tasks.event, tasks.collect)
        calls = [asyncio.create_task(family.run(tasks.submit)) for _ in range(3)]
        await thread.call(lambda: None)
        await thread.call(lambda: None)
        tasks.complete(3, 1)
        assert await calls[2] == "value of 3"
        assert await calls[0] == "value of 1"
        assert not calls[1].done()
        tasks.complete(2)
        assert await calls[1] == "value of 2"
        family.stop()
        thread.stop()
        os.close(tasks.event)

    asyncio.run(scenario())


def test_a_task_that_completes_as_it_is_submitted_is_not_missed() -> None:
    async def scenario() -> None:
        tasks, thread = Tasks(), AdapterThread("test")
        family = TaskFamily(thread, tasks.event, tasks.collect)
        for number in range(1, 200):
            assert await family.run(lambda: tasks.submit(done_already=True)) == f"value of {number}"
        family.stop()
        thread.stop()
        os.close(tasks.event)

    asyncio.run(scenario())


def test_a_submit_that_raises_fails_its_call_alone() -> None:
    async def scenario() -> None:
        tasks, thread = Tasks(), AdapterThread("test")
        family = TaskFamily(thread, tasks.event, tasks.collect)

        def refuse() -> int:
            raise OSError("refused")

        with pytest.raises(OSError, match="refused"):
            await family.run(refuse)
        assert await family.run(lambda: tasks.submit(done_already=True)) == "value of 1"
        family.stop()
        thread.stop()
        os.close(tasks.event)

    asyncio.run(scenario())


def test_a_posted_call_that_raises_does_not_end_the_thread() -> None:
    async def scenario() -> None:
        thread = AdapterThread("test")
        thread.post(lambda: 1 // 0)
        assert await thread.call(lambda: "still there") == "still there"
        thread.stop()

    asyncio.run(scenario())
