"""Objects in the daemon's own memory, under a byte budget: one sealed memfd for each object.

Why one for each is told in :mod:`kvchaos_sidecar.backends.slabs`. A published object is sealed, so that no
session can change what others read, and every read lease of it shares its one descriptor.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import cast

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.accounting import Accounting
from kvchaos_sidecar.backends.blocking import BlockingCalls
from kvchaos_sidecar.backends.contract import Backend, KeyPage, ReadLease, Usage, WriteLease
from kvchaos_sidecar.backends.slabs import Slab, SlabPool


class StoredObject:
    """A published slab. It is freed when the store and every read lease have let go of it."""

    def __init__(self, number: int, slab: Slab) -> None:
        self.number = number
        self.slab = slab
        self._lock = threading.Lock()
        self._holders = 1

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.slab.extent.length

    def hold(self) -> None:
        """Adds a holder. Only while the store itself is one."""
        with self._lock:
            self._holders += 1

    def let_go(self) -> None:
        """Takes a holder away."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        self.slab.free()


class MemoryReadLease(ReadLease):
    """One holder of a stored object."""

    def __init__(self, stored: StoredObject) -> None:
        stored.hold()
        self.extent = stored.slab.extent
        self._stored = stored
        self._claim = threading.Lock()

    def close(self) -> None:
        if self._claim.acquire(blocking=False):
            self._stored.let_go()


class MemoryWriteLease(WriteLease):
    """A slab that nobody else has seen."""

    def __init__(self, key: ObjectKey, slab: Slab) -> None:
        self.key = key
        self.slab = slab
        self.extent = slab.extent
        self._claim = threading.Lock()

    def claim(self) -> bool:
        """True for the first caller, who has to end the lease."""
        return self._claim.acquire(blocking=False)


class MemoryBackend(Backend):
    """Objects in memory, gone when the daemon ends. It refuses what does not fit; it evicts nothing."""

    type_name = "memory"

    def __init__(self, capacity_bytes: int, max_objects: int | None = None) -> None:
        """
        Args:
            capacity_bytes: what the sizes of all objects, those being written included, may add up to.
            max_objects: how many there may be; by default half as many as the process may have
                descriptors when it makes the backend.
        """
        self.capacity_bytes = capacity_bytes
        if max_objects is None:
            max_objects = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        self.description = f"{capacity_bytes} bytes, {max_objects} objects"
        self._pool = SlabPool(capacity_bytes, "kvchaos-memory", max_objects)
        self._accounting = Accounting(capacity_bytes)
        self._blocking = BlockingCalls(1, "kvchaos-memory")
        self._lock = threading.Lock()
        self._objects: dict[ObjectKey, StoredObject] = {}
        self._published = 0

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        self._blocking.close()
        self._objects.clear()
        self._pool.close()

    async def probe(self) -> None:
        """It always answers."""

    async def contains(self, keys: Sequence[ObjectKey]) -> list[bool]:
        return [key in self._objects for key in keys]

    async def open_reads(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[ReadLease | Result]:
        with self._lock:
            return list(map(self._open_read, keys, sizes))

    async def open_writes(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[WriteLease | Result]:
        return list(map(self._open_write, keys, sizes))

    async def publish(self, leases: Sequence[WriteLease], written: Sequence[int]) -> list[Result]:
        memory_leases = cast("Sequence[MemoryWriteLease]", leases)
        return await self._blocking.run(lambda: list(map(self._publish, memory_leases, written)))

    def discard(self, leases: Sequence[WriteLease]) -> None:
        for lease in cast("Sequence[MemoryWriteLease]", leases):
            if lease.claim():
                lease.slab.free()

    async def delete(self, keys: Sequence[ObjectKey]) -> list[int | Result]:
        return list(map(self._delete, keys))

    async def list_keys(self, model_name: str, page_size: int, cursor: str) -> KeyPage:
        entries = self._entries(model_name, _number(cursor))
        page = list(islice(entries, page_size))
        more = next(entries, None) is not None
        next_cursor = str(page[-1][1].number) if page and more else ""
        return KeyPage([(key, stored.size) for key, stored in page], next_cursor)

    async def usage(self) -> Usage:
        return self._accounting.usage()

    def _open_read(self, key: ObjectKey, size: int) -> ReadLease | Result:
        stored = self._objects.get(key)
        if stored is None:
            return Result.NOT_FOUND
        return MemoryReadLease(stored) if stored.size == size else Result.SIZE_MISMATCH

    def _open_write(self, key: ObjectKey, size: int) -> WriteLease | Result:
        if size < 1:
            return Result.INVALID
        if key in self._objects:
            return Result.PRESENT
        slab = self._pool.allocate(size)
        return Result.NO_SPACE if slab is None else MemoryWriteLease(key, slab)

    def _publish(self, lease: MemoryWriteLease, written: int) -> Result:
        if not lease.claim():
            return Result.INVALID
        result = _seal(lease, written)
        if result is Result.OK and not self._insert(lease):
            result = Result.PRESENT
        if result is not Result.OK:
            lease.slab.free()
        return result

    def _insert(self, lease: MemoryWriteLease) -> bool:
        with self._lock:
            if lease.key in self._objects:
                return False
            self._published += 1
            self._objects[lease.key] = StoredObject(self._published, lease.slab)
        self._accounting.stored(lease.key.cache_salt, lease.extent.length)
        return True

    def _delete(self, key: ObjectKey) -> int | Result:
        with self._lock:
            stored = self._objects.pop(key, None)
        if stored is None:
            return Result.NOT_FOUND
        self._accounting.deleted(key.cache_salt, stored.size)
        stored.let_go()
        return stored.size

    def _entries(self, model_name: str, after: int) -> Iterator[tuple[ObjectKey, StoredObject]]:
        """The objects in the order in which they were published."""
        with self._lock:
            objects = list(self._objects.items())
        for key, stored in objects:
            if stored.number > after and model_name in ("", key.model_name):
                yield key, stored


def _seal(lease: MemoryWriteLease, written: int) -> Result:
    granted = lease.extent.length
    try:
        found = lease.slab.seal()
    except OSError:  # another process has mapped it for writing
        return Result.INVALID
    return Result.OK if written == found == granted else Result.SIZE_MISMATCH


def _number(cursor: str) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit()):
        raise ValueError(f"cursor {cursor!r} is not one that a listing returned; start with an empty one")
    return int(cursor)
