import asyncio
from math import inf

from kvchaos_sidecar.sessions.holds import Holds


def test_a_thousand_calls_that_wait_for_ever_are_released_together() -> None:
    async def scenario() -> None:
        holds = Holds()
        calls = [asyncio.create_task(holds.wait(inf)) for _ in range(1000)]
        await asyncio.sleep(0)
        assert holds.count == 1000
        holds.release()
        await asyncio.gather(*calls)
        assert holds.count == 0

    asyncio.run(scenario())


def test_a_wait_ends_by_itself_or_with_its_call() -> None:
    async def scenario() -> None:
        holds = Holds()
        await holds.wait(0.001)
        cancelled = asyncio.create_task(holds.wait(inf))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert holds.count == 0

    asyncio.run(scenario())


def test_only_the_calls_of_a_rule_that_ends_are_released() -> None:
    async def scenario() -> None:
        holds = Holds()
        ending, staying = (asyncio.create_task(holds.wait(inf, rule)) for rule in ("ending", "staying"))
        await asyncio.sleep(0)
        holds.release_rules({"ending"})
        await ending
        assert holds.count == 1
        holds.release()
        await staying

    asyncio.run(scenario())


def test_nobody_waits_once_it_is_closed() -> None:
    async def scenario() -> None:
        holds = Holds()
        waiting = asyncio.create_task(holds.wait(inf))
        await asyncio.sleep(0)
        holds.close()
        await waiting
        await holds.wait(inf)

    asyncio.run(scenario())
