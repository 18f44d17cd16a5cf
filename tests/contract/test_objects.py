"""What every backend does with objects: store, load, delete, and every way in which it refuses."""

from __future__ import annotations

import asyncio
import os

import pytest

from kvchaos.keys import MAX_BATCH_KEYS, ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import Backend
from tests.contract.conftest import Driver
from tests.contract.steps import (
    content,
    fill,
    key,
    load,
    read,
    read_lease,
    store,
    write_lease,
    write_leases,
)


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 1 << 20, 4 << 20])
def test_a_stored_object_reads_back(drive: Driver, size: int) -> None:
    async def scenario(backend: Backend) -> None:
        objects = {key(number): content(number, size) for number in range(3)}
        assert await backend.contains(list(objects)) == [False] * 3
        assert await store(backend, objects) == [Result.OK] * 3
        assert await backend.contains(list(objects)) == [True] * 3
        assert await load(backend, list(objects), [size] * 3) == list(objects.values())

    drive(scenario)


def test_results_keep_the_order_of_the_keys(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        await store(backend, {key(1): b"one", key(3): b"three"})
        keys = [key(number) for number in (3, 0, 1, 2, 3)]
        assert await backend.contains(keys) == [True, False, True, False, True]
        found = await load(backend, keys, [5, 5, 3, 5, 4])
        assert found == [b"three", Result.NOT_FOUND, b"one", Result.NOT_FOUND, Result.SIZE_MISMATCH]

    drive(scenario)


def test_a_batch_of_no_keys(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        assert await backend.contains([]) == []
        assert await backend.open_reads([], []) == []
        assert await backend.open_writes([], []) == []
        assert await backend.publish([], []) == []
        assert await backend.delete([]) == []
        backend.discard([])

    drive(scenario)


def test_a_batch_of_the_most_keys(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        objects = {key(number): content(number, 16) for number in range(MAX_BATCH_KEYS)}
        keys = list(objects)
        assert await store(backend, objects) == [Result.OK] * MAX_BATCH_KEYS
        assert await backend.contains(keys) == [True] * MAX_BATCH_KEYS
        assert await load(backend, keys, [16] * MAX_BATCH_KEYS) == list(objects.values())
        assert await backend.delete(keys) == [16] * MAX_BATCH_KEYS

    drive(scenario)


def test_an_object_that_is_there_is_kept(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        await store(backend, {key(1): b"first"})
        assert await store(backend, {key(1): b"second"}) == [Result.PRESENT]
        assert await load(backend, [key(1)], [5]) == [b"first"]

    drive(scenario)


@pytest.mark.parametrize("asked", [4, 6])
def test_a_load_of_another_size_is_refused(drive: Driver, asked: int) -> None:
    async def scenario(backend: Backend) -> None:
        await store(backend, {key(1): b"bytes"})
        assert await backend.open_reads([key(1)], [asked]) == [Result.SIZE_MISMATCH]

    drive(scenario)


@pytest.mark.parametrize(
    ("granted", "data", "claimed"),
    [
        pytest.param(10, b"x" * 4, 4, id="short and says so"),
        pytest.param(10, b"x" * 4, 10, id="short and claims to be whole"),
        pytest.param(10, b"x" * 10, 9, id="whole and claims to be short"),
        pytest.param(10, b"x" * 10, 11, id="whole and claims to be long"),
        pytest.param(10, b"x" * 12, 12, id="long and says so"),
        pytest.param(10, b"x" * 12, 10, id="long and claims to be right"),
        pytest.param(10, b"", 10, id="nothing and claims to be whole"),
    ],
)
def test_an_object_of_another_length_is_not_published(
    drive: Driver, granted: int, data: bytes, claimed: int
) -> None:
    async def scenario(backend: Backend) -> None:
        lease = write_lease((await backend.open_writes([key(1)], [granted]))[0])
        fill(lease, data)
        assert await backend.publish([lease], [claimed]) == [Result.SIZE_MISMATCH]
        assert await backend.contains([key(1)]) == [False]
        assert (await backend.usage()).total_bytes == 0
        assert await store(backend, {key(1): b"right"}) == [Result.OK]

    drive(scenario)


def test_an_object_of_no_bytes_is_invalid(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        assert await backend.open_writes([key(1)], [0]) == [Result.INVALID]

    drive(scenario)


def test_what_is_not_published_cannot_be_seen(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        lease = write_lease((await backend.open_writes([key(1)], [5]))[0])
        fill(lease, b"bytes")
        assert await backend.contains([key(1)]) == [False]
        assert await backend.open_reads([key(1)], [5]) == [Result.NOT_FOUND]
        assert await backend.delete([key(1)]) == [Result.NOT_FOUND]
        backend.discard([lease])
        assert await backend.contains([key(1)]) == [False]

    drive(scenario)


def test_a_lease_ends_once(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        lease = write_lease((await backend.open_writes([key(1)], [5]))[0])
        fill(lease, b"bytes")
        assert await backend.publish([lease], [5]) == [Result.OK]
        backend.discard([lease, lease])
        assert await backend.publish([lease], [5]) == [Result.INVALID]
        assert await load(backend, [key(1)], [5]) == [b"bytes"]
        other = write_lease((await backend.open_writes([key(2)], [5]))[0])
        fill(other, b"bytes")
        backend.discard([other, other])
        assert await backend.publish([other], [5]) == [Result.INVALID]
        assert await backend.contains([key(2)]) == [False]

    drive(scenario)


def test_a_discarded_store_can_be_made_again(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        lease = write_lease((await backend.open_writes([key(1)], [5]))[0])
        fill(lease, b"other")
        backend.discard([lease])
        assert await store(backend, {key(1): b"bytes"}) == [Result.OK]
        assert await load(backend, [key(1)], [5]) == [b"bytes"]
        assert (await backend.usage()).total_bytes == 5

    drive(scenario)


def test_writers_of_one_key_end_with_one_whole_object(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        size, writers = 1 << 20, 8
        contents = [bytes([number]) * size for number in range(writers)]
        leases = [write_lease((await backend.open_writes([key(1)], [size]))[0]) for _ in range(writers)]
        for lease, data in zip(leases, contents, strict=True):
            fill(lease, data)
        published = await asyncio.gather(*(backend.publish([lease], [size]) for lease in leases))
        results = [result for batch in published for result in batch]
        assert sorted(results) == [Result.OK] + [Result.PRESENT] * (writers - 1)
        winner = contents[results.index(Result.OK)]
        assert await load(backend, [key(1)], [size]) == [winner]
        assert (await backend.usage()).total_bytes == size

    drive(scenario)


def test_one_key_twice_in_a_batch(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        leases = write_leases(await backend.open_writes([key(1), key(1)], [5, 5]))
        written = [fill(lease, data) for lease, data in zip(leases, (b"first", b"other"), strict=True)]
        assert await backend.publish(leases, written) == [Result.OK, Result.PRESENT]
        assert await load(backend, [key(1), key(1)], [5, 5]) == [b"first"] * 2
        assert await backend.delete([key(1), key(1)]) == [5, Result.NOT_FOUND]

    drive(scenario)


def test_deleting_frees_what_was_stored(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        await store(backend, {key(1): b"one", key(2): b"two!"})
        assert await backend.delete([key(1), key(0), key(2)]) == [3, Result.NOT_FOUND, 4]
        assert await backend.contains([key(1), key(2)]) == [False, False]
        assert await store(backend, {key(1): b"again"}) == [Result.OK]

    drive(scenario)


def test_deleting_does_not_disturb_a_lease(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        data = content(1, 1 << 20)
        await store(backend, {key(1): data})
        first, second = map(read_lease, await backend.open_reads([key(1), key(1)], [len(data)] * 2))
        assert await backend.delete([key(1)]) == [len(data)]
        await store(backend, {key(1): content(2, len(data)), key(2): content(3, len(data))})
        first.close()
        first.close()
        assert read(second) == data
        second.close()

    drive(scenario)


def test_a_reader_that_is_late_never_sees_other_bytes(drive: Driver) -> None:
    """A client holds a descriptor of its own; its lease may end, and the object be replaced, meanwhile."""

    async def scenario(backend: Backend) -> None:
        data = content(1, 1 << 16)
        await store(backend, {key(1): data})
        lease = read_lease((await backend.open_reads([key(1)], [len(data)]))[0])
        late, offset = os.dup(lease.extent.descriptor), lease.extent.offset
        await backend.delete([key(1)])
        lease.close()
        await store(backend, {key(number): content(number, len(data)) for number in range(2, 6)})
        for number in range(2, 6):
            for other in await backend.open_reads([key(number)], [len(data)]):
                read_lease(other).close()
        assert os.pread(late, len(data), offset) == data
        os.close(late)

    drive(scenario)


def test_keys_that_differ_in_one_field_are_different_objects(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        base = ObjectKey(b"\x01\x02", "m", 1, 2, "s")
        keys = [
            base,
            base._replace(chunk_hash=b"\x01\x02\x03"),
            base._replace(model_name="m/"),
            base._replace(kv_rank=2**32 - 1),
            base._replace(object_group_id=2**32 - 1),
            base._replace(cache_salt=""),
            base._replace(cache_salt="S"),
        ]
        objects = {k: content(number, 100) for number, k in enumerate(keys)}
        assert await store(backend, objects) == [Result.OK] * len(keys)
        assert await load(backend, keys, [100] * len(keys)) == list(objects.values())

    drive(scenario)


def test_closing_twice_is_no_error(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        await backend.close()

    drive(scenario)
