"""Callers stop waiting; the work goes on, and nothing it yields is lost."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import BackendError
from kvchaos_sidecar.backends.lmcache.bounded import BoundedCalls


async def value_after(event: asyncio.Event) -> str:
    await event.wait()
    return "value"


def test_a_value_in_time_is_returned() -> None:
    async def scenario() -> None:
        assert await BoundedCalls("it", 60.0).run(asyncio.sleep(0, "value")) == "value"

    asyncio.run(scenario())


def test_a_late_value_goes_to_whoever_cleans_up() -> None:
    async def scenario() -> None:
        event, abandoned = asyncio.Event(), asyncio.Queue[str]()
        with pytest.raises(BackendError, match=r"it did not answer within 0\.01 s") as caught:
            await BoundedCalls("it", 0.01).run(value_after(event), abandoned.put_nowait)
        assert caught.value.result is Result.TIMED_OUT
        event.set()
        assert await abandoned.get() == "value"

    asyncio.run(scenario())


@pytest.mark.parametrize("set_first", [False, True])
def test_the_value_of_a_cancelled_call_goes_to_whoever_cleans_up(set_first: bool) -> None:
    async def scenario() -> None:
        event, abandoned = asyncio.Event(), asyncio.Queue[str]()
        call = asyncio.create_task(BoundedCalls("it", 60.0).run(value_after(event), abandoned.put_nowait))
        for _ in range(3):
            await asyncio.sleep(0)
        if set_first:
            event.set()
            await asyncio.sleep(0)
        call.cancel()
        event.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await abandoned.get() == "value"

    asyncio.run(scenario())


def test_errors_are_translated_unless_they_are_the_backends_own() -> None:
    async def fail(error: Exception) -> NoReturn:
        raise error

    async def scenario() -> None:
        calls = BoundedCalls("it", 60.0)
        with pytest.raises(BackendError, match=r"it failed: KeyError\('x'\)") as caught:
            await calls.run(fail(KeyError("x")))
        assert caught.value.result is Result.IO_ERROR
        own = BackendError("full", Result.NO_SPACE)
        with pytest.raises(BackendError) as caught:
            await calls.run(fail(own))
        assert caught.value is own

    asyncio.run(scenario())


def test_closing_waits_for_work_and_then_ends_it() -> None:
    async def scenario() -> None:
        calls = BoundedCalls("it", 60.0)
        event = asyncio.Event()
        in_time, never = (asyncio.create_task(calls.run(value_after(e))) for e in (event, asyncio.Event()))
        await asyncio.sleep(0)
        closing = asyncio.create_task(calls.close(0.05))
        await asyncio.sleep(0)
        event.set()
        assert await in_time == "value"
        await closing
        with pytest.raises(BackendError, match="it is closed"):
            await never

    asyncio.run(scenario())
