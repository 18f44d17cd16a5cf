"""The budget: nothing over it, first come first served, and nothing lost when takers give up."""

from __future__ import annotations

import asyncio
import threading

from kvchaos_sidecar.backends.byte_budget import ByteBudget

PATIENT, IMPATIENT = 60.0, 0.01


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_batch_gets_what_fits_into_the_whole_budget() -> None:
    async def scenario() -> None:
        budget = ByteBudget(100, IMPATIENT)
        assert await budget.take([40, 40, 40]) == 2
        assert budget.used_bytes == 80
        assert await budget.take([]) == 0
        assert await budget.take([101]) == 0
        assert await budget.take([20]) == 1
        assert budget.used_bytes == 100

    asyncio.run(scenario())


def test_a_taker_waits_for_another_thread_to_give_back() -> None:
    async def scenario() -> None:
        budget = ByteBudget(100, PATIENT)
        await budget.take([100])
        waiting = asyncio.create_task(budget.take([60]))
        await turns()
        assert not waiting.done()
        threading.Thread(target=budget.give_back, args=(100,)).start()
        assert await waiting == 1
        assert budget.used_bytes == 60

    asyncio.run(scenario())


def test_a_small_taker_does_not_pass_a_large_one() -> None:
    async def scenario() -> None:
        budget = ByteBudget(100, PATIENT)
        await budget.take([50])
        large = asyncio.create_task(budget.take([80]))
        await turns()
        small = asyncio.create_task(budget.take([20]))
        await turns()
        assert not small.done()
        budget.give_back(50)
        assert await large == 1
        assert await small == 1
        assert budget.used_bytes == 100

    asyncio.run(scenario())


def test_a_taker_that_waits_in_vain_gets_nothing_and_lets_others_pass() -> None:
    async def scenario() -> None:
        budget = ByteBudget(100, IMPATIENT)
        await budget.take([50])
        large = asyncio.create_task(budget.take([80]))
        await turns()
        assert await large == 0
        assert budget.used_bytes == 50
        assert await budget.take([50]) == 1

    asyncio.run(scenario())


def test_a_cancelled_taker_leaves_the_line() -> None:
    async def scenario() -> None:
        budget = ByteBudget(100, PATIENT)
        await budget.take([50])
        first = asyncio.create_task(budget.take([80]))
        second = asyncio.create_task(budget.take([90]))
        third = asyncio.create_task(budget.take([40]))
        await turns()
        second.cancel()
        first.cancel()
        assert await third == 1
        assert budget.used_bytes == 90

    asyncio.run(scenario())


def test_what_was_given_to_a_taker_as_it_gave_up_is_not_lost() -> None:
    async def scenario() -> None:
        budget = ByteBudget(100, PATIENT)
        await budget.take([100])
        waiting = asyncio.create_task(budget.take([60]))
        await turns()
        budget.give_back(100)
        await asyncio.sleep(0)  # served, but not yet told
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await turns()
        assert budget.used_bytes == (0 if waiting.cancelled() else 60)

    asyncio.run(scenario())
