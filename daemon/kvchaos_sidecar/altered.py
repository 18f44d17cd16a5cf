"""Copies of an object's bytes that a fault has changed, in sealed memory of their own."""

from __future__ import annotations

import os
from collections.abc import Callable

from kvchaos_sidecar.backends.contract import Extent, ReadLease
from kvchaos_sidecar.backends.slabs import Slab, SlabPool

_PIECE_BYTES = 1 << 20


class AlteredRead(ReadLease):
    """A slab that holds the changed bytes."""

    def __init__(self, slab: Slab, claimed_bytes: int) -> None:
        """``claimed_bytes`` is the length that the client is told."""
        self.extent = Extent(slab.extent.descriptor, 0, claimed_bytes)
        self._slab = slab

    def close(self) -> None:
        self._slab.free()


def altered_copy(
    extent: Extent, change: Callable[[bytes], bytes], claimed_bytes: int | None, slabs: SlabPool
) -> AlteredRead | None:
    """A lease on ``change`` of the bytes; None when there is no memory for it. Blocks.

    Raises:
        OSError: the bytes cannot be read.
    """
    data = change(read_extent(extent))
    slab = slabs.allocate(max(1, len(data)))
    if slab is None:
        return None
    try:
        write_all(slab.extent, data)
        slab.seal()
    except OSError:
        slab.free()
        raise
    return AlteredRead(slab, len(data) if claimed_bytes is None else claimed_bytes)


def copy_head(source: Extent, destination: Extent) -> None:
    """Fills ``destination`` with the first bytes of ``source``. Blocks. Raises OSError."""
    for offset in range(0, destination.length, _PIECE_BYTES):
        size = min(_PIECE_BYTES, destination.length - offset)
        piece = os.pread(source.descriptor, size, source.offset + offset)
        write_all(Extent(destination.descriptor, destination.offset + offset, size), piece)


def read_extent(extent: Extent) -> bytes:
    """All bytes of an extent that its file has. Blocks. Raises OSError."""
    data = bytearray()
    while len(data) < extent.length:
        piece = os.pread(extent.descriptor, extent.length - len(data), extent.offset + len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


def write_all(extent: Extent, data: bytes) -> None:
    """Writes ``data`` at the start of an extent. Blocks. Raises OSError."""
    written = 0
    while written < len(data):
        written += os.pwrite(extent.descriptor, data[written:], extent.offset + written)
