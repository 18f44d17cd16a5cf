"""No path through a backend leaks a descriptor, whatever is cancelled and whenever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import Backend, ReadLease, WriteLease
from tests.contract.conftest import Driver
from tests.contract.steps import fill, key, open_descriptors, settled, store, write_leases

COUNT = 100
MOMENTS = [0, 1, 2, 3, 5, 8]

Cancelled = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]


async def cancelled_after(turns: int, call: Coroutine[Any, Any, Any]) -> Any:
    """Runs a call for some turns of the loop, then cancels it. Its value when it was quicker, else []."""
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return []


async def cancelled_when_done_in_the_thread(call: Coroutine[Any, Any, Any]) -> Any:
    """Cancels a call whose work is done but whose value has not reached the loop."""
    task = asyncio.ensure_future(call)
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - the loop must not see that the thread is done
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return []


def ways_to_cancel() -> list[Any]:
    """The moments at which a call is cancelled."""
    ways = [
        pytest.param(lambda call, turns=turns: cancelled_after(turns, call), id=f"after {turns} turns")
        for turns in MOMENTS
    ]
    return [*ways, pytest.param(cancelled_when_done_in_the_thread, id="when done")]


def close_all(backend: Backend, answers: list[ReadLease | WriteLease | Result]) -> None:
    for answer in answers:
        if isinstance(answer, ReadLease):
            answer.close()
        elif isinstance(answer, WriteLease):
            backend.discard([answer])


def test_ordinary_traffic_leaves_nothing_open(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        keys = [key(number) for number in range(COUNT)]
        await store(backend, dict.fromkeys(keys, b"bytes"))
        await store(backend, dict.fromkeys(keys, b"bytes"))
        close_all(backend, list(await backend.open_reads(keys, [5] * COUNT)))
        close_all(backend, list(await backend.open_reads(keys, [6] * COUNT)))
        backend.discard(write_leases(await backend.open_writes([key(COUNT)], [5])))
        await backend.publish(write_leases(await backend.open_writes([key(COUNT)], [5])), [3])
        await backend.delete(keys)

    drive(scenario)  # what a library opens once and keeps is not counted
    before = open_descriptors()
    drive(scenario)
    assert settled(before) == []


@pytest.mark.parametrize("cancelled", ways_to_cancel())
def test_a_cancelled_call_gives_back_what_it_had_opened(drive: Driver, cancelled: Cancelled) -> None:
    keys = [key(number) for number in range(COUNT)]
    absent = [key(number) for number in range(COUNT, 2 * COUNT)]

    async def scenario(backend: Backend) -> None:
        await store(backend, dict.fromkeys(keys, b"bytes"))
        close_all(backend, await cancelled(backend.open_reads(keys, [5] * COUNT)))
        close_all(backend, await cancelled(backend.open_writes(absent, [5] * COUNT)))
        leases = write_leases(await backend.open_writes(absent, [5] * COUNT))
        await cancelled(backend.publish(leases, [fill(lease, b"bytes") for lease in leases]))
        backend.discard(leases)
        await asyncio.sleep(0.05)
        await backend.delete(keys + absent)

    drive(scenario)
    before = open_descriptors()
    drive(scenario)
    assert settled(before) == []
