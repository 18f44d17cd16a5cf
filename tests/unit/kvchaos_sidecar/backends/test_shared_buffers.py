"""A buffer is used again when, and only when, nobody else can read it any more."""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kvchaos_sidecar.backends.shared_buffers import BufferStock, SharedBuffer

SIZE = 1 << 16


@pytest.fixture
def buffer() -> Iterator[SharedBuffer]:
    buffer = SharedBuffer(SIZE)
    yield buffer
    if buffer.descriptor >= 0:
        buffer.free()


def hold_as_a_copy(descriptor: int, held: ExitStack) -> None:
    held.callback(os.close, os.dup(descriptor))


def hold_as_a_mapping(descriptor: int, held: ExitStack) -> None:
    mapping = mmap.mmap(descriptor, SIZE, access=mmap.ACCESS_READ)
    held.callback(mapping.close)


def hold_on_its_way_through_a_socket(descriptor: int, held: ExitStack) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    socket.send_fds(ours, [b"x"], [descriptor])
    held.callback(ours.close)
    held.callback(theirs.close)


def hold_reopened_for_writing(descriptor: int, held: ExitStack) -> None:
    held.callback(os.close, os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR))


def test_a_reader_sees_what_the_daemon_writes(buffer: SharedBuffer) -> None:
    buffer.view[:5] = b"hello"
    assert os.pread(buffer.descriptor, 5, 0) == b"hello"


def test_a_reader_can_neither_write_nor_truncate(buffer: SharedBuffer) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(buffer.descriptor, b"x", 0)
    with ExitStack() as held:
        writable = os.open(f"/proc/self/fd/{buffer.descriptor}", os.O_RDWR)
        held.callback(os.close, writable)
        with pytest.raises(PermissionError):
            os.ftruncate(writable, 1)


def test_a_buffer_that_nobody_else_holds_can_be_reclaimed(buffer: SharedBuffer) -> None:
    assert buffer.reclaim()
    buffer.view[:3] = b"new"
    assert os.pread(buffer.descriptor, 3, 0) == b"new"


@pytest.mark.parametrize(
    "hold",
    [
        hold_as_a_copy,
        hold_as_a_mapping,
        hold_on_its_way_through_a_socket,
        hold_reopened_for_writing,
    ],
)
def test_a_buffer_that_somebody_holds_is_not_reclaimed(
    buffer: SharedBuffer, hold: Callable[[int, ExitStack], None]
) -> None:
    with ExitStack() as held:
        hold(buffer.descriptor, held)
        assert not buffer.reclaim()


def test_the_stock_gives_back_a_buffer_of_the_size_asked_for(buffer: SharedBuffer) -> None:
    stock = BufferStock(max_buffers=10)
    stock.put(buffer)
    assert stock.take(SIZE * 2) is None
    assert stock.take(SIZE) is buffer
    assert stock.take(SIZE) is None


def test_the_stock_passes_over_buffers_that_are_held() -> None:
    stock = BufferStock(max_buffers=10)
    held, free = SharedBuffer(SIZE), SharedBuffer(SIZE)
    late = os.dup(held.descriptor)
    held.view[:4] = b"mine"
    stock.put(held)
    stock.put(free)
    assert stock.take(SIZE) is free
    free.view[:4] = b"next"
    assert os.pread(late, 4, 0) == b"mine"
    os.close(late)
    free.free()


def test_the_stock_keeps_within_bytes_and_numbers() -> None:
    stock = BufferStock(max_buffers=3)
    small = [SharedBuffer(SIZE) for _ in range(3)]
    large = SharedBuffer(SIZE * 2)
    for buffer in (*small, large):
        stock.put(buffer)
    stock.trim(max_bytes=SIZE * 100)
    assert [buffer.descriptor for buffer in small].count(-1) == 1
    stock.trim(max_bytes=SIZE * 2)
    assert [buffer.descriptor for buffer in small] == [-1] * 3
    assert stock.take(SIZE * 2) is large
    large.free()
