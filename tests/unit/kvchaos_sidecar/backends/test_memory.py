"""Budget and isolation of the memory backend. What else it does with objects is in tests/contract."""

from __future__ import annotations

import asyncio
import mmap
import os
import resource
from collections.abc import Awaitable, Callable

import pytest

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import ReadLease, WriteLease
from kvchaos_sidecar.backends.memory import MemoryBackend

CAPACITY = 1000


def key(number: int) -> ObjectKey:
    return ObjectKey(bytes([number]), "m", 1)


def run(scenario: Callable[[MemoryBackend], Awaitable[None]], max_objects: int | None = None) -> None:
    async def started() -> None:
        backend = MemoryBackend(CAPACITY, max_objects)
        await backend.start()
        await scenario(backend)
        await backend.close()

    asyncio.run(started())


async def grant(backend: MemoryBackend, number: int, size: int) -> WriteLease:
    lease = (await backend.open_writes([key(number)], [size]))[0]
    assert isinstance(lease, WriteLease)
    os.pwrite(lease.extent.descriptor, bytes([number]) * size, 0)
    return lease


async def publish(backend: MemoryBackend, lease: WriteLease) -> list[Result]:
    return await backend.publish([lease], [lease.extent.length])


def test_grants_count_against_the_budget_and_come_back() -> None:
    async def scenario(backend: MemoryBackend) -> None:
        first, second = await grant(backend, 1, 600), await grant(backend, 2, 400)
        assert await backend.open_writes([key(3)], [1]) == [Result.NO_SPACE]
        backend.discard([second])
        assert await publish(backend, first) == [Result.OK]
        assert await backend.open_writes([key(3)], [401]) == [Result.NO_SPACE]
        assert await publish(backend, await grant(backend, 3, 400)) == [Result.OK]
        assert await backend.delete([key(1)]) == [600]
        assert await publish(backend, await grant(backend, 4, 600)) == [Result.OK]
        usage = await backend.usage()
        assert (usage.total_bytes, usage.capacity_bytes) == (1000, 1000)

    run(scenario)


def test_a_deleted_object_counts_until_its_readers_have_closed() -> None:
    async def scenario(backend: MemoryBackend) -> None:
        await publish(backend, await grant(backend, 1, CAPACITY))
        lease = (await backend.open_reads([key(1)], [CAPACITY]))[0]
        assert isinstance(lease, ReadLease)
        await backend.delete([key(1)])
        assert await backend.open_writes([key(2)], [1]) == [Result.NO_SPACE]
        lease.close()
        await grant(backend, 2, CAPACITY)

    run(scenario)


def test_objects_are_bounded_in_number() -> None:
    async def scenario(backend: MemoryBackend) -> None:
        for number in (1, 2):
            await publish(backend, await grant(backend, number, 1))
        assert await backend.open_writes([key(3)], [1]) == [Result.NO_SPACE]

    run(scenario, max_objects=2)


def test_by_default_half_of_the_descriptors_may_be_objects() -> None:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert f"{soft // 2} objects" in MemoryBackend(CAPACITY).description


def test_neither_writer_nor_reader_can_change_a_published_object() -> None:
    async def scenario(backend: MemoryBackend) -> None:
        writer = await grant(backend, 1, 5)
        kept = os.dup(writer.extent.descriptor)
        await publish(backend, writer)
        reader = (await backend.open_reads([key(1)], [5]))[0]
        assert isinstance(reader, ReadLease)
        for descriptor in (kept, reader.extent.descriptor):
            with pytest.raises(PermissionError):
                os.pwrite(descriptor, b"spoil", 0)
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, 0)
            with pytest.raises(PermissionError):
                mmap.mmap(descriptor, 5)
        os.close(kept)
        assert os.pread(reader.extent.descriptor, 5, 0) == bytes([1]) * 5
        reader.close()

    run(scenario)


def test_an_object_that_its_writer_still_maps_is_not_published() -> None:
    async def scenario(backend: MemoryBackend) -> None:
        writer = await grant(backend, 1, 5)
        mapping = mmap.mmap(writer.extent.descriptor, 5)
        assert await publish(backend, writer) == [Result.INVALID]
        mapping.close()
        assert await backend.contains([key(1)]) == [False]
        await grant(backend, 2, CAPACITY)

    run(scenario)


def test_grants_share_no_memory() -> None:
    async def scenario(backend: MemoryBackend) -> None:
        first, second = await grant(backend, 1, 5), await grant(backend, 2, 5)
        os.pwrite(first.extent.descriptor, b"\xff" * 8192, 0)
        assert os.pread(second.extent.descriptor, 8192, 0) == bytes([2]) * 5

    run(scenario)


def test_readers_of_one_object_share_its_descriptor() -> None:
    async def scenario(backend: MemoryBackend) -> None:
        await publish(backend, await grant(backend, 1, 5))
        leases = await backend.open_reads([key(1)] * 3, [5] * 3)
        assert len({lease.extent.descriptor for lease in leases if isinstance(lease, ReadLease)}) == 1

    run(scenario)
