"""Objects between an adapter and staging memory.

Memory that an adapter has is given back when the adapter has said that it is done with it, and never before.
When a transfer is cancelled, because the backend is being closed, it is not given back at all.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.blocking import BlockingCalls
from kvchaos_sidecar.backends.contract import BackendError, ReadLease
from kvchaos_sidecar.backends.lmcache.adapter import HostedAdapter
from kvchaos_sidecar.backends.lmcache.in_flight import InFlight
from kvchaos_sidecar.backends.lmcache.memory import AdapterMemory, Buffer
from kvchaos_sidecar.backends.repeats import without_repeats
from kvchaos_sidecar.backends.staging import StagedObject, StagedRead

_T = TypeVar("_T")

_THREADS = 2
_OBJECTS_PER_STORE = 512
"""Each takes a descriptor while the adapter has it."""


class Transfers:
    """Lookups, loads and stores of batches. Each waits for the adapter for as long as it takes."""

    def __init__(self, adapter: HostedAdapter, memory: AdapterMemory) -> None:
        self._adapter = adapter
        self._memory = memory
        self._in_flight = InFlight()
        self._blocking = BlockingCalls(_THREADS, "kvchaos-lmcache-memory")
        self._never_given_back: dict[object, Sequence[object]] = {}

    async def present(self, keys: Sequence[ObjectKey]) -> list[bool]:
        """Which keys are there. Leaves none locked."""
        if not keys:
            return []
        found = await self._adapter.lookup_and_lock(keys)
        await self._adapter.unlock([key for key, there in zip(keys, found, strict=True) if there])
        return found

    async def load(self, keys: Sequence[ObjectKey], leases: Sequence[StagedRead]) -> list[ReadLease | Result]:
        """Has the leases filled, and closes those of keys that could not be read.

        That is NOT_FOUND where the key has gone meanwhile, else IO_ERROR: adapters do not say why.
        """
        results: list[ReadLease | Result] = list(leases)
        try:
            for positions in _of_one_size([lease.extent.length for lease in leases]):
                part = [leases[position] for position in positions]
                loaded = await self._load([keys[position] for position in positions], part)
                for position, result in zip(positions, loaded, strict=True):
                    results[position] = result
        except Exception:
            for lease in leases:
                lease.close()
            raise
        return results

    async def publish(self, objects: Sequence[StagedObject | None], written: Sequence[int]) -> list[Result]:
        """Stores what was written whole and is not there yet, and ends every object."""
        try:
            results = await self._blocking.run(partial(_finish_all, objects, written))
            whole = {i: staged for i, staged in enumerate(objects) if staged and results[i] is Result.OK}
            for positions in _tasks(whole):
                batch = [whole[position] for position in positions]
                async with self._in_flight.claim([staged.key for staged in batch]):
                    stored = await self._store_absent(batch)
                for position, result in zip(positions, stored, strict=True):
                    results[position] = result
                await self._blocking.run(partial(_end_all, batch))
        except Exception:
            _end_all(objects)
            raise
        await self._blocking.run(partial(_end_all, objects))
        return results

    def close(self) -> None:
        """Takes no more calls."""
        self._blocking.close()

    async def _load(
        self, keys: Sequence[ObjectKey], leases: Sequence[StagedRead]
    ) -> list[ReadLease | Result]:
        buffers = await self._beside(lambda: _borrow(self._memory.for_load, (lease.view for lease in leases)))
        with self._lent(buffers, leases):
            loaded = await self._adapter.load(keys, [buffer.memory_object for buffer in buffers])
        await self._beside(partial(_land, buffers, loaded))
        failed = [position for position, whole in enumerate(loaded) if not whole]
        there = await self.present([keys[position] for position in failed])
        results: list[ReadLease | Result] = list(leases)
        for position, present in zip(failed, there, strict=True):
            leases[position].close()
            results[position] = Result.IO_ERROR if present else Result.NOT_FOUND
        return results

    async def _store_absent(self, batch: Sequence[StagedObject]) -> list[Result]:
        present = await self.present([staged.key for staged in batch])
        absent = [staged for staged, there in zip(batch, present, strict=True) if not there]
        stored = iter(await self._store(absent) if absent else [])
        return [Result.PRESENT if there else next(stored) for there in present]

    async def _store(self, batch: Sequence[StagedObject]) -> list[Result]:
        keys = [staged.key for staged in batch]
        buffers = await self._beside(
            lambda: _borrow(self._memory.for_store, (staged.view for staged in batch))
        )
        with self._lent(buffers, batch):
            outcome = await self._adapter.store(keys, [buffer.memory_object for buffer in buffers])
        _release(buffers)
        if outcome.is_successful() and outcome.bytes_transferred() == sum(staged.size for staged in batch):
            return [Result.OK] * len(batch)
        # The outcome is one for the whole task, and adapters that are full skip keys and report success.
        missing = Result.NO_SPACE if outcome.is_successful() else Result.IO_ERROR
        return [Result.OK if there else missing for there in await self.present(keys)]

    async def _beside(self, work: Callable[[], _T]) -> _T:
        """The value of ``work()``, in a thread where it copies bytes: nothing less is worth a thread."""
        return await self._blocking.run(work) if self._memory.copies else self._blocking.run_here(work)

    @contextmanager
    def _lent(self, buffers: Sequence[Buffer], owners: Sequence[object]) -> Iterator[None]:
        """While the adapter has the buffers. Its caller releases them, unless the adapter has failed."""
        token = object()
        self._never_given_back[token] = (*buffers, *owners)
        try:
            yield
        except asyncio.CancelledError:
            raise
        except BaseException:
            _release(buffers)
            del self._never_given_back[token]
            raise
        del self._never_given_back[token]


def _borrow(make: Callable[[memoryview], Buffer], views: Iterable[memoryview]) -> list[Buffer]:
    buffers: list[Buffer] = []
    try:
        for view in views:
            buffers.append(make(view))
    except (MemoryError, OSError) as error:
        _release(buffers)
        raise BackendError(f"no memory for the adapter: {error}", Result.NO_SPACE) from error
    return buffers


def _release(buffers: Sequence[Buffer]) -> None:
    for buffer in buffers:
        buffer.release()


def _land(buffers: Sequence[Buffer], loaded: Sequence[bool]) -> None:
    for buffer, whole in zip(buffers, loaded, strict=True):
        if whole:
            buffer.land()
        buffer.release()


def _tasks(objects: Mapping[int, StagedObject]) -> Iterator[list[int]]:
    """The positions of each store task: no key twice, one size, no more than may be mapped at once."""
    for positions in without_repeats((position, staged.key) for position, staged in objects.items()):
        for group in _of_one_size([objects[position].size for position in positions]):
            for first in range(0, len(group), _OBJECTS_PER_STORE):
                yield [positions[index] for index in group[first : first + _OBJECTS_PER_STORE]]


def _of_one_size(sizes: Sequence[int]) -> Iterable[list[int]]:
    """The positions of each size. LMCache's native connectors fail tasks of several sizes."""
    positions: defaultdict[int, list[int]] = defaultdict(list)
    for position, size in enumerate(sizes):
        positions[size].append(position)
    return positions.values()


def _finish_all(objects: Sequence[StagedObject | None], written: Sequence[int]) -> list[Result]:
    return [
        Result.INVALID if staged is None else staged.finish(length)
        for staged, length in zip(objects, written, strict=True)
    ]


def _end_all(objects: Sequence[StagedObject | None]) -> None:
    for staged in objects:
        if staged is not None:
            staged.end()
