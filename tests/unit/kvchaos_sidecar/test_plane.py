"""The data plane over the real memory backend, the real rules and the real journal."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import BackendError, ReadLease
from kvchaos_sidecar.backends.memory import MemoryBackend
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.load import validate
from kvchaos_sidecar.errors import InvalidRequest, TicketInUse
from kvchaos_sidecar.faults.poison import Poison, PoisonKind
from kvchaos_sidecar.journal import Journal
from kvchaos_sidecar.metrics import Metrics
from kvchaos_sidecar.plane import Answer, DataPlane
from kvchaos_sidecar.rules.governor import Governor
from kvchaos_sidecar.sessions.session import Session, SessionLimits
from kvchaos_sidecar.sessions.tickets import LoadTicket, StoreTicket

KEYS = [ObjectKey(bytes([number]) * 8, "m", 0) for number in range(5)]
SIZE = 4


class RecordingStore(MemoryBackend):
    """Memory that notes what it was asked for, and fails when told to."""

    def __init__(self) -> None:
        super().__init__(1 << 20)
        self.asked: list[ObjectKey] = []
        self.unlocked: list[ObjectKey] = []
        self.failure: BackendError | None = None

    async def open_reads(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[ReadLease | Result]:
        self.asked += keys
        self._fail()
        return await super().open_reads(keys, sizes)

    async def lock(self, keys: Sequence[ObjectKey]) -> list[bool]:
        self._fail()
        return await super().lock(keys)

    async def unlock(self, keys: Sequence[ObjectKey]) -> None:
        self.unlocked += keys

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


@dataclass
class World:
    """One data plane and what is around it."""

    store: RecordingStore
    governor: Governor
    journal: Journal
    plane: DataPlane
    session: Session
    registry: CollectorRegistry

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    async def fill(self, keys: Sequence[ObjectKey], claimed: int = SIZE) -> Sequence[Result]:
        ticket = StoreTicket(99, inline=False, discard=self.store.discard)
        with self.session.stores.opened(ticket):
            await self.plane.prepare_store(self.session, ticket, keys, [SIZE] * len(keys))
        for lease in ticket.grants.values():
            os.pwrite(lease.extent.descriptor, b"data", lease.extent.offset)
        return await self.plane.commit_store(self.session, ticket, [claimed] * len(ticket.grants))

    async def load(self, keys: Sequence[ObjectKey] = KEYS, size: int = SIZE) -> tuple[Answer, LoadTicket]:
        ticket = LoadTicket(1, inline=False)
        with self.session.loads.opened(ticket):
            answer = await self.plane.load(self.session, ticket, keys, [size] * len(keys))
        return answer, ticket


@asynccontextmanager
async def world(**fault_inject: object) -> AsyncIterator[World]:
    clock, registry, store = ManualClock(), CollectorRegistry(), RecordingStore()
    backend = {"type": "memory", "capacity_bytes": 1}
    governor = Governor(validate({"version": 1, "backend": backend, "fault_inject": fault_inject}), clock)
    journal = Journal(clock)
    plane = DataPlane(store, governor, journal, Metrics(registry, store.type_name, "test"))
    session = Session("client", clock, SessionLimits(10.0, 10.0, 100), plane.give_back_locks)
    await store.start()
    try:
        yield World(store, governor, journal, plane, session, registry)
    finally:
        await plane.settle(5.0)
        await store.close()


def test_without_faults_every_key_is_asked_for_and_granted() -> None:
    async def scenario() -> None:
        async with world() as here:
            await here.fill(KEYS)
            answer, ticket = await here.load()
            assert list(answer.results) == [Result.OK] * 5
            assert list(ticket.grants) == [0, 1, 2, 3, 4]
            assert here.store.asked == KEYS
            assert here.journal.recent() == ()

    asyncio.run(scenario())


def test_dropped_keys_are_not_asked_for_and_are_counted() -> None:
    async def scenario() -> None:
        async with world(gap_indices=[1], gap_tail_ratios=[0.0], poison={"byte": 9}) as here:
            await here.fill(KEYS)
            answer, ticket = await here.load()
            ok, dropped = Result.OK, Result.DROPPED
            assert list(answer.results) == [ok, dropped, ok, ok, dropped]
            assert answer.generation == 1
            assert answer.poison == Poison(PoisonKind.BYTE, 9)
            assert list(ticket.grants) == [0, 2, 3]
            assert here.store.asked == [KEYS[0], KEYS[2], KEYS[3]]
            assert (here.plane.evaluated_total, here.plane.fired_total) == (5, 2)
            assert here.value("kvchaos_drops_total", rule="fault_inject", reason="index") == 1
            assert here.value("kvchaos_drops_total", rule="fault_inject", reason="tail_ratio") == 1
            assert here.value("kvchaos_keys_total", op="load", result="dropped") == 2
            assert [list(event.positions) for event in here.journal.recent()] == [[1], [4]]

    asyncio.run(scenario())


def test_a_batch_that_is_dropped_whole_does_not_reach_the_store() -> None:
    async def scenario() -> None:
        async with world(rate=1.0) as here:
            await here.fill(KEYS)
            answer, _ = await here.load()
            assert list(answer.results) == [Result.DROPPED] * 5
            assert here.store.asked == []
            assert here.session.grants == 0

    asyncio.run(scenario())


def test_lookup_store_and_delete_are_left_alone_by_faults_on_loads() -> None:
    async def scenario() -> None:
        async with world(rate=1.0) as here:
            assert list(await here.fill(KEYS)) == [Result.OK] * 5
            assert list((await here.plane.lookup(here.session, KEYS)).results) == [Result.OK] * 5
            assert list((await here.plane.delete(here.session, KEYS)).freed_bytes) == [SIZE] * 5
            assert here.plane.evaluated_total == 0

    asyncio.run(scenario())


def test_while_halted_nothing_fires() -> None:
    async def scenario() -> None:
        async with world(rate=1.0) as here:
            await here.fill(KEYS)
            here.governor.halt()
            answer, _ = await here.load()
            assert list(answer.results) == [Result.OK] * 5
            assert here.plane.fired_total == 0

    asyncio.run(scenario())


def test_only_keys_that_are_present_are_locked_and_the_store_hears_of_the_end_of_each_lock() -> None:
    async def scenario() -> None:
        async with world() as here:
            await here.fill(KEYS[:2])
            answer = await here.plane.lookup(here.session, [KEYS[0], KEYS[4], KEYS[0], KEYS[1]])
            ok, absent = Result.OK, Result.NOT_FOUND
            assert list(answer.results) == [ok, absent, ok, ok]
            assert here.session.locks.total == 3
            assert await here.plane.unlock(here.session, [KEYS[0], KEYS[4]]) == 1
            here.session.locks.close()
            await here.plane.settle(5.0)
            assert sorted(here.store.unlocked) == [KEYS[0], KEYS[0], KEYS[1]]

    asyncio.run(scenario())


def test_a_store_that_fails_a_whole_call_fails_every_key_that_it_was_asked_for() -> None:
    async def scenario() -> None:
        async with world(gap_indices=[0]) as here:
            here.store.failure = BackendError("gone", Result.TIMED_OUT)
            answer, _ = await here.load()
            assert list(answer.results) == [Result.DROPPED] + [Result.TIMED_OUT] * 4
            assert list((await here.plane.lookup(here.session, KEYS[:1])).results) == [Result.TIMED_OUT]
            assert here.session.locks.total == 0
            assert here.value("kvchaos_backend_errors_total", backend="memory", result="timed_out") == 5

    asyncio.run(scenario())


def test_a_failure_is_logged_once_until_the_store_recovers(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with world() as here:
            for failure in (BackendError("gone"), BackendError("gone"), None, BackendError("gone")):
                here.store.failure = failure
                await here.load()

    asyncio.run(scenario())
    assert sum("gone" in record.getMessage() for record in caplog.records) == 2


def test_an_object_is_published_only_at_its_granted_length() -> None:
    async def scenario() -> None:
        async with world() as here:
            assert list(await here.fill(KEYS[:1], claimed=SIZE - 1)) == [Result.SIZE_MISMATCH]
            assert list((await here.load(KEYS[:1]))[0].results) == [Result.NOT_FOUND]

    asyncio.run(scenario())


def test_a_commit_with_the_wrong_number_of_lengths_changes_nothing() -> None:
    async def scenario() -> None:
        async with world() as here:
            ticket = StoreTicket(1, inline=False, discard=here.store.discard)
            with here.session.stores.opened(ticket):
                await here.plane.prepare_store(here.session, ticket, KEYS[:2], [SIZE] * 2)
            with pytest.raises(InvalidRequest, match="expected 2"):
                await here.plane.commit_store(here.session, ticket, [SIZE])
            ticket.pin()
            with pytest.raises(TicketInUse):
                await here.plane.commit_store(here.session, ticket, [SIZE] * 2)
            ticket.unpin()
            assert len(ticket.grants) == 2

    asyncio.run(scenario())


def test_positions_that_failed_inline_keep_their_failure_and_the_rest_is_published() -> None:
    async def scenario() -> None:
        async with world() as here:
            ticket = StoreTicket(1, inline=True, discard=here.store.discard)
            with here.session.stores.opened(ticket):
                await here.plane.prepare_store(here.session, ticket, KEYS[:3], [SIZE] * 3)
            ticket.failures[1] = Result.NO_SPACE
            for position in (0, 2):
                extent = ticket.grants[position].extent
                ticket.received[position] = os.pwrite(extent.descriptor, b"data", extent.offset)
            results = await here.plane.commit_store(here.session, ticket, [SIZE, 0, SIZE])
            assert list(results) == [Result.OK, Result.NO_SPACE, Result.OK]
            assert here.value("kvchaos_bytes_total", op="store", transport="inline") == 2 * SIZE
            assert here.value("kvchaos_transfer_failures_total", op="store", transport="inline") == 1

    asyncio.run(scenario())


def test_each_stored_key_is_counted_once() -> None:
    async def scenario() -> None:
        async with world() as here:
            await here.fill(KEYS[:2])
            await here.fill(KEYS[:3])
            assert here.value("kvchaos_keys_total", op="store", result="ok") == 3
            assert here.value("kvchaos_keys_total", op="store", result="present") == 2

    asyncio.run(scenario())


def test_a_finished_load_is_counted_without_the_positions_that_failed() -> None:
    async def scenario() -> None:
        async with world() as here:
            await here.fill(KEYS)
            _, ticket = await here.load()
            here.plane.finish_load(here.session, ticket, [1, 4, 77])
            assert here.session.grants == 0
            assert here.value("kvchaos_bytes_total", op="load", transport="handoff") == 3 * SIZE
            assert here.value("kvchaos_transfer_failures_total", op="load", transport="handoff") == 2

    asyncio.run(scenario())
