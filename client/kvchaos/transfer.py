"""Moving the bytes of one batch between descriptors and buffers, on several threads.

The pieces of a batch are shared out as they are finished: a thread that is done takes the next one. So a
few large objects are read by all threads at once and many small ones are shared between them, without
planning. An object is written by one thread: the kernel lets only one at a time write to a file.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from kvchaos.results import Result
from kvchaos.workers import Workers

PIECE_BYTES = 1024 * 1024
BYTES_WORTH_A_THREAD = 4 * 1024 * 1024
"""With fewer, threads lose more by waiting for the interpreter's lock than they save."""

_RESULT_BY_ERRNO: Mapping[int, Result] = MappingProxyType(
    {
        errno.ENOSPC: Result.NO_SPACE,
        errno.EDQUOT: Result.NO_SPACE,
        errno.EFBIG: Result.NO_SPACE,
        errno.EINVAL: Result.INVALID,
        errno.ETIMEDOUT: Result.TIMED_OUT,
    }
)


class Extent(NamedTuple):
    """Where one object is, and the caller's memory that it goes to or comes from."""

    position: int
    descriptor: int
    offset: int
    buffer: memoryview


class Direction(Enum):
    """Which way the bytes go."""

    READ = "read"
    WRITE = "write"


def whole_buffer(memory: object) -> memoryview:
    """``memory`` as bytes. Raises TypeError or BufferError where it is no contiguous memory."""
    return memoryview(memory).cast("B")  # type: ignore[arg-type]


class Transfer:
    """One batch on its way. No thread touches a buffer any more once ``done`` is called.

    Args:
        expired: asked before each piece; once true, the pieces left over fail with TIMED_OUT.
        done: called once, by the thread that finishes last, with the positions that failed and why.
        arrived: called with each position whose last piece has moved, before ``done``, from any thread.
    """

    def __init__(
        self,
        direction: Direction,
        extents: Sequence[Extent],
        expired: Callable[[], bool],
        done: Callable[[Mapping[int, Result]], None],
        arrived: Callable[[int], None] | None = None,
    ) -> None:
        self._move = _read if direction is Direction.READ else _write
        self._pieces = deque(_split(extents) if direction is Direction.READ else extents)
        self._total_bytes = sum(extent.buffer.nbytes for extent in extents)
        self._expired = expired
        self._done = done
        self._arrived = arrived
        self._pieces_left = Counter(piece.position for piece in self._pieces) if arrived else Counter()
        self._failed: dict[int, Result] = {}
        self._lock = threading.Lock()
        self._active = 0
        self._finished = False

    def run(self, workers: Workers) -> None:
        """Moves everything, on the calling thread and, where it is worth it, on ``workers`` too."""
        useful = min(len(self._pieces), 1 + self._total_bytes // BYTES_WORTH_A_THREAD, workers.count)
        for _ in range(useful - 1):
            workers.submit(self._share)
        self._share()

    def _share(self) -> None:
        with self._lock:
            if self._finished:
                return
            self._active += 1
        try:
            self._move_pieces()
        finally:
            with self._lock:
                self._active -= 1
                self._finished = last = self._active == 0
            if last:
                self._done(self._failed)

    def _move_pieces(self) -> None:
        while True:
            try:
                piece = self._pieces.popleft()
            except IndexError:
                return
            if piece.position not in self._failed:
                self._move_piece(piece)

    def _move_piece(self, piece: Extent) -> None:
        if self._expired():
            self._failed[piece.position] = Result.TIMED_OUT
            return
        try:
            moved = self._move(piece)
        except OSError as error:
            self._failed[piece.position] = _RESULT_BY_ERRNO.get(error.errno or 0, Result.IO_ERROR)
            return
        if moved != piece.buffer.nbytes:
            self._failed[piece.position] = Result.IO_ERROR
        elif self._arrived is not None:
            self._count_arrival(piece.position, self._arrived)

    def _count_arrival(self, position: int, arrived: Callable[[int], None]) -> None:
        with self._lock:
            self._pieces_left[position] -= 1
            whole = self._pieces_left[position] == 0
        if whole:
            arrived(position)


def _split(extents: Iterable[Extent]) -> Iterable[Extent]:
    for extent in extents:
        if extent.buffer.nbytes <= PIECE_BYTES:
            yield extent
            continue
        for start in range(0, extent.buffer.nbytes, PIECE_BYTES):
            yield extent._replace(
                offset=extent.offset + start, buffer=extent.buffer[start : start + PIECE_BYTES]
            )


def _read(piece: Extent) -> int:
    moved = os.preadv(piece.descriptor, (piece.buffer,), piece.offset)
    while moved < piece.buffer.nbytes:
        count = os.preadv(piece.descriptor, (piece.buffer[moved:],), piece.offset + moved)
        if count == 0:
            break
        moved += count
    return moved


def _write(piece: Extent) -> int:
    moved = os.pwritev(piece.descriptor, (piece.buffer,), piece.offset)
    while moved < piece.buffer.nbytes:
        moved += os.pwritev(piece.descriptor, (piece.buffer[moved:],), piece.offset + moved)
    return moved
