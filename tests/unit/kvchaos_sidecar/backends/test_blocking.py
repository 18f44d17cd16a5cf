"""Blocking calls beside the loop: it stays free, errors arrive, and cancelled calls are undone."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kvchaos_sidecar.backends.blocking import BlockingCalls
from kvchaos_sidecar.backends.contract import BackendError

PATIENCE_S = 20.0


def test_a_call_that_hangs_holds_up_neither_the_loop_nor_other_calls() -> None:
    async def scenario() -> None:
        calls = BlockingCalls(2, "test")
        release = threading.Event()
        hanging = asyncio.ensure_future(calls.run(lambda: release.wait(PATIENCE_S)))
        assert await calls.run(lambda: "served") == "served"
        assert not hanging.done()
        release.set()
        assert await hanging
        calls.close()

    asyncio.run(scenario())


def test_an_error_of_the_call_reaches_the_caller() -> None:
    async def scenario() -> None:
        calls = BlockingCalls(1, "test")
        with pytest.raises(ZeroDivisionError):
            await calls.run(lambda: 1 // 0)
        calls.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "queued"])
def test_a_cancelled_call_is_made_and_undone(begun: bool) -> None:
    undone: list[str] = []
    done = threading.Event()

    def undo(value: str) -> None:
        undone.append(value)
        done.set()

    async def scenario() -> None:
        calls = BlockingCalls(1, "test")
        release, started = threading.Event(), threading.Event()

        def call() -> str:
            started.set()
            release.wait(PATIENCE_S)
            return "value"

        if not begun:
            calls.start(lambda: release.wait(PATIENCE_S))
        task = asyncio.ensure_future(calls.run(call, undo))
        await asyncio.sleep(0)
        if begun:
            assert await asyncio.to_thread(started.wait, PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert undone == []
        release.set()
        assert await asyncio.to_thread(done.wait, PATIENCE_S)
        assert undone == ["value"]
        calls.close()

    asyncio.run(scenario())


def test_a_call_that_fails_after_its_caller_is_gone_is_not_undone() -> None:
    undone: list[int] = []

    async def scenario() -> None:
        calls = BlockingCalls(1, "test")
        release = threading.Event()

        def call() -> int:
            release.wait(PATIENCE_S)
            raise OSError("too late to matter")

        task = asyncio.ensure_future(calls.run(call, undone.append))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        assert await calls.run(lambda: "next") == "next"
        calls.close()

    asyncio.run(scenario())
    assert undone == []


def test_closed_calls_refuse_but_finish_what_was_asked() -> None:
    async def scenario() -> None:
        calls = BlockingCalls(1, "test")
        release = threading.Event()
        calls.start(lambda: release.wait(PATIENCE_S))
        queued = calls.start(lambda: "made")
        calls.close()
        calls.close()
        with pytest.raises(BackendError, match="closed"):
            await calls.run(lambda: None)
        release.set()
        assert await asyncio.wrap_future(queued) == "made"

    asyncio.run(scenario())
