"""Spoiling the destination of a dropped key, so that nobody mistakes it for loaded data."""

from __future__ import annotations

import ctypes

from kvchaos.v1 import common_pb2

NAN_BYTE = 0xFF


def poison_byte(poison: common_pb2.Poison) -> int | None:
    """The byte that fills the destination, or None where it stays as it is.

    A kind that this version does not know, and none at all, spoil too: a drop must never look like data.
    """
    if poison.kind == common_pb2.Poison.KIND_LEAVE:
        return None
    if poison.kind == common_pb2.Poison.KIND_BYTE:
        return poison.fill & 0xFF
    return NAN_BYTE


def fill(buffer: memoryview, byte: int) -> None:
    """Fills a writable buffer with ``byte``, without holding the interpreter's lock."""
    if buffer.nbytes:
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(buffer)), byte, buffer.nbytes)
