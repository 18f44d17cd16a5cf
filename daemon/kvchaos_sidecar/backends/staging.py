"""Memory for objects on their way between a client and a store that has no files.

No memory is shared between batches, so no client can see or spoil another's bytes. All of it together, and
what is kept for the next loads, stays within one budget.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import TypeVar

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.byte_budget import ByteBudget
from kvchaos_sidecar.backends.contract import Extent, ReadLease, WriteLease
from kvchaos_sidecar.backends.shared_buffers import BufferStock, SharedBuffer
from kvchaos_sidecar.backends.slabs import Slab, SlabPool

BLOCK_BYTES = 4 << 20
"""Small objects of one load are put into one file until it is as large as this."""
DEFAULT_BUDGET_BYTES = 1 << 30
DEFAULT_PATIENCE_S = 10.0
MAX_IDLE_BUFFERS = 1024
_FILES_PER_TURN = 16

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class _Block:
    """A buffer with objects of one batch, given back when the last of their leases is closed."""

    def __init__(self, buffer: SharedBuffer, leases: int, give_back: Callable[[SharedBuffer], None]) -> None:
        self.buffer = buffer
        self._leases = leases
        self._give_back = give_back
        self._lock = threading.Lock()

    def let_go(self) -> None:
        """Takes one lease away."""
        with self._lock:
            self._leases -= 1
            if self._leases:
                return
        self._give_back(self.buffer)


class StagedRead(ReadLease):
    """Memory that the daemon fills through :attr:`view` and a client then reads."""

    def __init__(self, block: _Block, offset: int, size: int) -> None:
        self.extent = Extent(block.buffer.descriptor, offset, size)
        self._held = [block]

    @property
    def view(self) -> memoryview:
        """Exactly the lease's bytes, writable. What an earlier lease left in them has to be overwritten.

        Raises:
            ValueError: the lease has been closed.
        """
        if not self._held:
            raise ValueError("the lease has been closed")
        _, offset, size = self.extent
        return self._held[0].buffer.view[offset : offset + size]

    def close(self) -> None:
        with suppress(IndexError):  # pop is atomic: of all callers, one lets go
            self._held.pop().let_go()


class StagedObject:
    """What a client wrote, on its way into the store."""

    def __init__(self, key: ObjectKey, slab: Slab, give_back: Callable[[Slab], None]) -> None:
        self.key = key
        self.size = slab.extent.length
        self._slab = slab
        self._give_back = give_back
        self._held = [slab]

    @property
    def view(self) -> memoryview:
        """The bytes, once finished and until it ends."""
        return self._slab.view

    def finish(self, written: int) -> Result:
        """Ends all writing. SIZE_MISMATCH when client, file and grant do not agree on the number of bytes.

        INVALID when the client has the memory still mapped for writing.
        """
        try:
            found = self._slab.seal()
        except OSError:
            return Result.INVALID
        return Result.OK if written == found == self.size else Result.SIZE_MISMATCH

    def end(self) -> None:
        """Gives the memory back. Idempotent; from any thread."""
        with suppress(IndexError):  # pop is atomic: of all callers, one gives back
            self._give_back(self._held.pop())


class StagedWrite(WriteLease):
    """An empty file in memory that a client fills and the daemon then stores."""

    def __init__(self, staged: StagedObject, extent: Extent) -> None:
        self.key = staged.key
        self.extent = extent
        self._held = [staged]

    def take(self) -> StagedObject | None:
        """Ends the lease and hands over what was written; None when it has ended before."""
        try:
            return self._held.pop()
        except IndexError:
            return None

    def discard(self) -> None:
        """Ends the lease, unless it has ended before."""
        staged = self.take()
        if staged is not None:
            staged.end()


class StagingArea:
    """Where the memory comes from."""

    def __init__(
        self, budget_bytes: int = DEFAULT_BUDGET_BYTES, patience_s: float = DEFAULT_PATIENCE_S
    ) -> None:
        """
        Args:
            budget_bytes: what all leases together may hold, in whole pages. A single batch gets no more.
            patience_s: how long a batch waits for others to give memory back, in seconds.
        """
        self._budget = ByteBudget(budget_bytes, patience_s)
        self._slabs = SlabPool(budget_bytes, "kvchaos-staging")
        self._stock = BufferStock(MAX_IDLE_BUFFERS)
        self._closed = False

    @property
    def budget_bytes(self) -> int:
        """What all leases together may hold."""
        return self._budget.total_bytes

    @property
    def used_bytes(self) -> int:
        """What the leases hold, in whole pages."""
        return self._budget.used_bytes

    async def open_reads(self, sizes: Sequence[int]) -> list[StagedRead | Result]:
        """Memory for each size. NO_SPACE from the first that there is none for; no bytes: INVALID."""

        def open_some(start: int, stop: int) -> list[StagedRead | Result]:
            return self._open_block(_first_block(sizes[start:stop]))

        return await self._open(sizes, open_some, StagedRead.close)

    async def open_writes(
        self, keys: Sequence[ObjectKey], sizes: Sequence[int]
    ) -> list[StagedWrite | Result]:
        """Room for each key. NO_SPACE from the first that there is none for; no bytes: INVALID."""

        def open_some(start: int, _stop: int) -> list[StagedWrite | Result]:
            return self._open_file(keys[start], sizes[start])

        return await self._open(sizes, open_some, StagedWrite.discard)

    def close(self) -> None:
        """Frees what is idle now, and the rest as it is given back. Idempotent."""
        self._closed = True
        self._trim_stock()

    async def _open(
        self,
        sizes: Sequence[int],
        open_some: Callable[[int, int], list[_T | Result]],
        undo: Callable[[_T], None],
    ) -> list[_T | Result]:
        """``open_some(start, stop)`` opens a file and answers for one size or more; for none if it cannot."""
        footprints = [_footprint(size) for size in sizes]
        granted = await self._budget.take(footprints)
        opened: list[_T | Result] = []
        try:
            for number in count(1):
                some = open_some(len(opened), granted) if len(opened) < granted else []
                if not some:
                    break
                opened += some
                if number % _FILES_PER_TURN == 0:
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            for answer in opened:
                if not isinstance(answer, Result):
                    undo(answer)
            raise
        finally:
            self._budget.give_back(sum(footprints[len(opened) : granted]))
        return [*opened, *[Result.NO_SPACE] * (len(sizes) - len(opened))]

    def _open_block(self, sizes: Sequence[int]) -> list[StagedRead | Result]:
        leases = sum(size > 0 for size in sizes)
        if leases == 0:
            return [Result.INVALID] * len(sizes)
        try:
            buffer = self._buffer(sum(map(_footprint, sizes)))
        except OSError as error:
            _log.warning("no memory for a load: %s", error)
            return []
        block = _Block(buffer, leases, self._give_back_buffer)
        opened: list[StagedRead | Result] = []
        offset = 0
        for size in sizes:
            opened.append(StagedRead(block, offset, size) if size > 0 else Result.INVALID)
            offset += _footprint(size)
        return opened

    def _open_file(self, key: ObjectKey, size: int) -> list[StagedWrite | Result]:
        if size < 1:
            return [Result.INVALID]
        self._trim_stock()
        slab = self._slabs.allocate(size)
        if slab is None:
            return []
        return [StagedWrite(StagedObject(key, slab, self._give_back_slab), slab.extent)]

    def _buffer(self, size: int) -> SharedBuffer:
        buffer = self._stock.take(size)
        if buffer is None:
            self._trim_stock()
            buffer = SharedBuffer(size)
        return buffer

    def _give_back_buffer(self, buffer: SharedBuffer) -> None:
        size = len(buffer.view)
        self._stock.put(buffer)
        self._budget.give_back(size)
        self._trim_stock()

    def _give_back_slab(self, slab: Slab) -> None:
        slab.free()
        self._budget.give_back(_footprint(slab.extent.length))

    def _trim_stock(self) -> None:
        """Keeps what is idle and what is in use within the budget, together."""
        self._stock.trim(0 if self._closed else self._budget.total_bytes - self._budget.used_bytes)


def _footprint(size: int) -> int:
    """What an object of ``size`` bytes takes, in whole pages."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _first_block(sizes: Sequence[int]) -> Sequence[int]:
    """As many of the sizes as make one block."""
    total = 0
    for number, size in enumerate(sizes, start=1):
        total += _footprint(size)
        if total >= BLOCK_BYTES:
            return sizes[:number]
    return sizes
