"""One store of a key at a time."""

from __future__ import annotations

import asyncio

from tests.contract.steps import key

from kvchaos_sidecar.backends.lmcache.in_flight import InFlight


def test_stores_of_one_key_come_one_after_the_other_and_of_others_beside_them() -> None:
    async def scenario() -> None:
        in_flight = InFlight()
        log: list[str] = []
        first_may_end = asyncio.Event()

        async def store(name: str, keys: list[int], may_end: asyncio.Event | None = None) -> None:
            async with in_flight.claim([key(n) for n in keys]):
                log.append(f"{name} begins")
                if may_end is not None:
                    await may_end.wait()
                log.append(f"{name} ends")

        stores = [
            asyncio.create_task(store("first", [1, 2], first_may_end)),
            asyncio.create_task(store("second", [2, 3])),
            asyncio.create_task(store("other", [4])),
        ]
        await asyncio.wait(stores[2:])
        assert log == ["first begins", "other begins", "other ends"]
        first_may_end.set()
        await asyncio.wait(stores)
        assert log[3:] == ["first ends", "second begins", "second ends"]

    asyncio.run(scenario())


def test_a_store_that_fails_lets_the_next_one_go_on() -> None:
    async def scenario() -> None:
        in_flight = InFlight()
        try:
            async with in_flight.claim([key(1)]):
                raise RuntimeError
        except RuntimeError:
            pass
        async with in_flight.claim([key(1)]):
            pass

    asyncio.run(scenario())
