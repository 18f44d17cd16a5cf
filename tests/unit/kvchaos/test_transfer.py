import ctypes
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from kvchaos.results import Result
from kvchaos.transfer import BYTES_WORTH_A_THREAD, PIECE_BYTES, Direction, Extent, Transfer, whole_buffer
from kvchaos.workers import Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    pool = Workers(3, "test")
    yield pool
    assert pool.close(10.0)


@pytest.fixture
def descriptor() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


def move(
    direction: Direction, extents: Sequence[Extent], workers: Workers, expired: bool = False
) -> Mapping[int, Result]:
    outcome: list[Mapping[int, Result]] = []
    done = threading.Event()

    def finished(failed: Mapping[int, Result]) -> None:
        outcome.append(dict(failed))
        done.set()

    transfer = Transfer(direction, extents, lambda: expired, finished)
    workers.submit(lambda: transfer.run(workers))
    assert done.wait(30)
    return outcome[0]


@pytest.mark.parametrize(
    "sizes",
    [
        [1],
        [10] * 1000,
        [3 * PIECE_BYTES + 5],
        [PIECE_BYTES, 1, PIECE_BYTES + 1],
        [BYTES_WORTH_A_THREAD, 2 * BYTES_WORTH_A_THREAD + 5],
    ],
)
def test_what_was_written_is_read_back_whole(sizes: list[int], descriptor: int, workers: Workers) -> None:
    sources = [memoryview(os.urandom(size)) for size in sizes]
    targets = [memoryview(bytearray(size)) for size in sizes]
    offsets = [7 + sum(sizes[:place]) for place in range(len(sizes))]

    def extents(buffers: Sequence[memoryview]) -> list[Extent]:
        return [Extent(place, descriptor, offsets[place], buffer) for place, buffer in enumerate(buffers)]

    assert move(Direction.WRITE, extents(sources), workers) == {}
    assert move(Direction.READ, extents(targets), workers) == {}
    assert targets == sources


def test_each_object_is_announced_once_it_is_whole_and_before_the_end(
    descriptor: int, workers: Workers
) -> None:
    sizes = [2 * PIECE_BYTES + 1, 10, 10]
    os.ftruncate(descriptor, sum(sizes) - 1)
    extents = [
        Extent(place, descriptor, sum(sizes[:place]), memoryview(bytearray(size)))
        for place, size in enumerate(sizes)
    ]
    told: list[object] = []
    done = threading.Event()

    def finished(failed: Mapping[int, Result]) -> None:
        told.append(dict(failed))
        done.set()

    transfer = Transfer(Direction.READ, extents, lambda: False, finished, told.append)
    workers.submit(lambda: transfer.run(workers))
    assert done.wait(30)
    assert sorted(told[:-1]) == [0, 1]  # type: ignore[type-var]
    assert told[-1] == {2: Result.IO_ERROR}


def test_a_short_object_fails_and_the_others_arrive(descriptor: int, workers: Workers) -> None:
    os.pwrite(descriptor, b"0123456789", 0)
    buffers = [memoryview(bytearray(4)) for _ in range(3)]
    extents = [Extent(place, descriptor, 4 * place, buffer) for place, buffer in enumerate(buffers)]
    assert move(Direction.READ, extents, workers) == {2: Result.IO_ERROR}
    assert bytes(buffers[0]) + bytes(buffers[1]) == b"01234567"


def test_a_descriptor_that_cannot_be_written_fails_its_positions(workers: Workers) -> None:
    readable = os.open("/dev/null", os.O_RDONLY)
    try:
        failed = move(Direction.WRITE, [Extent(5, readable, 0, memoryview(b"abc"))], workers)
    finally:
        os.close(readable)
    assert failed == {5: Result.IO_ERROR}


def test_a_full_device_is_no_space(workers: Workers) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        failed = move(Direction.WRITE, [Extent(0, full, 0, memoryview(b"abc"))], workers)
    finally:
        os.close(full)
    assert failed == {0: Result.NO_SPACE}


def test_nothing_is_touched_once_time_is_up(descriptor: int, workers: Workers) -> None:
    os.pwrite(descriptor, b"data", 0)
    buffer = memoryview(bytearray(b"...."))
    failed = move(Direction.READ, [Extent(0, descriptor, 0, buffer)], workers, expired=True)
    assert failed == {0: Result.TIMED_OUT}
    assert bytes(buffer) == b"...."


def test_an_empty_batch_is_done_at_once(workers: Workers) -> None:
    assert move(Direction.READ, [], workers) == {}


def test_it_is_not_done_while_another_thread_still_has_a_piece(descriptor: int, workers: Workers) -> None:
    own = threading.current_thread()
    other_has_a_piece, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def before_a_piece() -> bool:
        if threading.current_thread() is own:
            assert other_has_a_piece.wait(30)
        else:
            other_has_a_piece.set()
            assert go_on.wait(30)
        return False

    os.ftruncate(descriptor, BYTES_WORTH_A_THREAD)
    buffer = memoryview(bytearray(BYTES_WORTH_A_THREAD))
    transfer = Transfer(
        Direction.READ, [Extent(0, descriptor, 0, buffer)], before_a_piece, lambda _: done.set()
    )
    transfer.run(workers)
    assert not done.is_set()
    go_on.set()
    assert done.wait(30)


def test_work_is_done_even_if_no_other_thread_ever_helps(descriptor: int) -> None:
    pool = Workers(2, "test")
    pool.close(10.0)
    buffer = memoryview(bytearray(3 * BYTES_WORTH_A_THREAD))
    os.ftruncate(descriptor, len(buffer))
    outcome: list[Mapping[int, Result]] = []
    Transfer(Direction.READ, [Extent(0, descriptor, 0, buffer)], lambda: False, outcome.append).run(pool)
    assert outcome == [{}]


def test_memory_of_any_shape_and_type_is_bytes() -> None:
    assert whole_buffer((ctypes.c_ubyte * 10)()).nbytes == 10
    assert whole_buffer(bytearray(3)).format == "B"
    with pytest.raises(TypeError):
        whole_buffer("text")
