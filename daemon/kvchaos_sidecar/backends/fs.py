"""A directory with one file for each object: the files of LMCache's ``fs`` and ``fs_native`` adapters.

The blocking calls of a batch are made in one hop to a small pool of threads, because a file system may
hang. In memory (tmpfs) none can, and a small batch is done before a thread has woken up.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar, cast

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.accounting import Accounting
from kvchaos_sidecar.backends.atomic_files import PendingFile
from kvchaos_sidecar.backends.blocking import BlockingCalls
from kvchaos_sidecar.backends.contract import (
    Backend,
    BackendError,
    Extent,
    KeyPage,
    ReadLease,
    Usage,
    WriteLease,
)
from kvchaos_sidecar.backends.filenames import from_file_name
from kvchaos_sidecar.backends.object_files import ObjectFiles

_THREADS = 4
_SMALL_BATCH = 64
"""Keys whose calls in memory take less than a millisecond."""

_KEEP_NAMES_S = 30.0
"""How long a listing may pause before the next page costs another reading of the directory."""

_T = TypeVar("_T")


class FsReadLease(ReadLease):
    """An open object file."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.extent = Extent(descriptor, 0, size)
        self._open = [descriptor]

    def close(self) -> None:
        try:
            os.close(self._open.pop())  # whoever takes it closes it
        except (IndexError, OSError):
            return


class FsWriteLease(WriteLease):
    """A pending file and the key it is meant for."""

    def __init__(self, key: ObjectKey, pending: PendingFile, size: int) -> None:
        self.key = key
        self.pending = pending
        self.extent = Extent(pending.descriptor, 0, size)


class FsBackend(Backend):
    """Objects as files in ``base_path``, which may be shared with other processes and with LMCache."""

    type_name = "fs"

    def __init__(self, base_path: str) -> None:
        """Does not touch the directory; :meth:`start` does, and makes it unless it exists."""
        self.description = os.path.abspath(base_path)
        self._accounting = Accounting()
        self._blocking = BlockingCalls(_THREADS, "kvchaos-fs")
        self._opened: ObjectFiles | None = None
        self._forgetting: asyncio.TimerHandle | None = None

    @property
    def _files(self) -> ObjectFiles:
        if self._opened is None:
            raise BackendError("the backend has not been started")
        return self._opened

    async def start(self) -> None:
        try:
            self._opened = await self._blocking.run(partial(ObjectFiles, self.description))
        except OSError as error:
            raise BackendError(
                f"base_path {self.description}: {error.strerror}. It must be a directory that this user may "
                "read and write, in a file system with hard links"
            ) from error

    async def close(self) -> None:
        self._forget_names_after(None)
        self._blocking.close()

    async def probe(self) -> None:
        try:
            await self._blocking.run(lambda: os.scandir(self.description).close())
        except OSError as error:
            raise BackendError(f"base_path {self.description}: {error.strerror}; bring it back") from error

    async def contains(self, keys: Sequence[ObjectKey]) -> list[bool]:
        return await self._run(keys, lambda: [self._files.exists(key) for key in keys])

    async def open_reads(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[ReadLease | Result]:
        return await self._run(keys, partial(self._open_reads, keys, sizes), _close_reads)

    async def open_writes(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[WriteLease | Result]:
        return await self._run(keys, partial(self._open_writes, keys, sizes), _discard_writes)

    async def publish(self, leases: Sequence[WriteLease], written: Sequence[int]) -> list[Result]:
        return await self._run(leases, partial(self._publish, leases, written))

    def discard(self, leases: Sequence[WriteLease]) -> None:
        pending = [lease.pending for lease in cast("Sequence[FsWriteLease]", leases)]
        claimed = [file for file in pending if file.claim()]
        try:
            self._blocking.start(partial(_remove, claimed))
        except BackendError:  # closed
            _remove(claimed)

    async def delete(self, keys: Sequence[ObjectKey]) -> list[int | Result]:
        return await self._run(keys, lambda: [self._delete(key) for key in keys])

    async def list_keys(self, model_name: str, page_size: int, cursor: str) -> KeyPage:
        after = cursor.encode(errors="replace")
        if cursor and from_file_name(after) is None:
            raise ValueError(f"cursor {cursor!r} is not one that a listing returned; start with an empty one")
        page = await self._blocking.run(partial(self._list, model_name, page_size, after))
        self._forget_names_after(_KEEP_NAMES_S if page.next_cursor else 0.0)
        return page

    async def usage(self) -> Usage:
        return self._accounting.usage()

    async def _run(
        self, batch: Sequence[object], calls: Callable[[], _T], undo: Callable[[_T], None] | None = None
    ) -> _T:
        in_memory = self._opened is not None and self._opened.in_memory
        if in_memory and len(batch) <= _SMALL_BATCH:
            return self._blocking.run_here(calls)
        return await self._blocking.run(calls, undo)

    def _open_reads(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[ReadLease | Result]:
        opened = map(self._files.open, keys, sizes)
        return [
            found if isinstance(found, Result) else FsReadLease(found, size)
            for found, size in zip(opened, sizes, strict=True)
        ]

    def _open_writes(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[WriteLease | Result]:
        created = map(self._files.create, keys, sizes)
        return [
            made if isinstance(made, Result) else FsWriteLease(key, made, size)
            for made, key, size in zip(created, keys, sizes, strict=True)
        ]

    def _publish(self, leases: Sequence[WriteLease], written: Sequence[int]) -> list[Result]:
        return list(map(self._publish_one, cast("Sequence[FsWriteLease]", leases), written))

    def _publish_one(self, lease: FsWriteLease, written: int) -> Result:
        granted = lease.extent.length
        if written != granted:
            lease.pending.discard()
            return Result.SIZE_MISMATCH
        result = self._files.publish(lease.key, lease.pending, granted)
        if result is Result.OK:
            self._accounting.stored(lease.key.cache_salt, granted)
        return result

    def _delete(self, key: ObjectKey) -> int | Result:
        freed = self._files.delete(key)
        if not isinstance(freed, Result):
            self._accounting.deleted(key.cache_salt, freed)
        return freed

    def _forget_names_after(self, delay_s: float | None) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
            self._forgetting = None
        if delay_s is not None:
            loop = asyncio.get_running_loop()
            self._forgetting = loop.call_later(delay_s, self._files.names.forget)

    def _list(self, model_name: str, page_size: int, after: bytes) -> KeyPage:
        entries = (entry for entry in self._files.entries(after) if model_name in ("", entry[1].model_name))
        page = list(islice(entries, page_size))
        more = next(entries, None) is not None
        next_cursor = page[-1][0].decode() if page and more else ""
        return KeyPage([(key, size) for _, key, size in page], next_cursor)


def _close_reads(opened: Sequence[ReadLease | Result]) -> None:
    for lease in opened:
        if isinstance(lease, ReadLease):
            lease.close()


def _remove(pending: Sequence[PendingFile]) -> None:
    for file in pending:
        file.remove()


def _discard_writes(made: Sequence[WriteLease | Result]) -> None:
    for lease in made:
        if isinstance(lease, FsWriteLease):
            lease.pending.discard()
