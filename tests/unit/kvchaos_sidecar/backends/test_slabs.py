"""Slabs: budget, isolation between holders of descriptors, and what a hostile holder cannot do."""

import errno
import mmap
import os
import resource
import threading
from collections.abc import Iterator

import pytest

from kvchaos_sidecar.backends.slabs import SlabPool

MIB = 1 << 20


@pytest.fixture
def pool() -> Iterator[SlabPool]:
    pool = SlabPool(MIB, "kvchaos-test")
    yield pool
    pool.close()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_budget_counts_sizes_and_comes_back(pool: SlabPool) -> None:
    first = pool.allocate(MIB - 10)
    assert first is not None
    assert pool.used_bytes == MIB - 10
    assert pool.allocate(11) is None
    last = pool.allocate(10)
    assert last is not None
    first.free()
    first.free()
    assert pool.used_bytes == 10
    assert pool.allocate(MIB - 10) is not None


def test_max_slabs_bounds_the_descriptors() -> None:
    pool = SlabPool(MIB, "kvchaos-test", max_slabs=2)
    slabs = [pool.allocate(1) for _ in range(3)]
    assert [slab is None for slab in slabs] == [False, False, True]
    pool.close()
    assert pool.used_bytes == 0
    assert pool.allocate(1) is not None
    pool.close()


def test_a_process_without_descriptors_gets_none(pool: SlabPool) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors() + 4, hard))
    try:
        slabs = [pool.allocate(1) for _ in range(20)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert slabs[0] is not None
    assert slabs[-1] is None
    assert pool.used_bytes == sum(slab is not None for slab in slabs)


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_below_one_are_refused(pool: SlabPool, size: int) -> None:
    with pytest.raises(ValueError, match="the least is 1"):
        pool.allocate(size)


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, MIB])
def test_view_and_descriptor_show_the_same_bytes(pool: SlabPool, size: int) -> None:
    slab = pool.allocate(size)
    assert slab is not None
    assert slab.extent[1:] == (0, size)
    content = os.urandom(size)
    slab.view[:] = content
    assert len(slab.view) == size
    assert os.pread(slab.extent.descriptor, size + 1, 0) == content


def test_free_closes_the_descriptor_and_a_late_holder_keeps_the_bytes(pool: SlabPool) -> None:
    before = open_descriptors()
    slab = pool.allocate(5)
    assert slab is not None
    slab.view[:] = b"bytes"
    late = os.dup(slab.extent.descriptor)
    slab.free()
    other = pool.allocate(5)
    assert other is not None
    other.view[:] = b"other"
    assert os.pread(late, 5, 0) == b"bytes"
    os.close(late)
    other.free()
    assert open_descriptors() == before


def test_a_view_in_use_survives_free(pool: SlabPool) -> None:
    slab = pool.allocate(5)
    assert slab is not None
    part = slab.view[1:3]
    slab.free()
    part[:] = b"ok"
    assert part.tobytes() == b"ok"
    with pytest.raises(ValueError, match="freed"):
        _ = slab.view


def test_a_holder_cannot_change_the_length_under_a_mapping(pool: SlabPool) -> None:
    slab = pool.allocate(10)
    assert slab is not None
    _ = slab.view
    for length in (0, 4096):
        with pytest.raises(PermissionError):
            os.ftruncate(slab.extent.descriptor, length)


@pytest.mark.parametrize("written", [0, 3, 10, 12])
def test_seal_tells_the_length_that_was_written(pool: SlabPool, written: int) -> None:
    slab = pool.allocate(10)
    assert slab is not None
    os.pwrite(slab.extent.descriptor, b"x" * written, 0)
    assert slab.seal() == written


def test_a_sealed_slab_cannot_be_changed_by_any_holder(pool: SlabPool) -> None:
    slab = pool.allocate(5)
    assert slab is not None
    holder = os.dup(slab.extent.descriptor)
    reopened = os.open(f"/proc/self/fd/{holder}", os.O_RDWR)
    os.pwrite(holder, b"bytes", 0)
    slab.seal()
    for descriptor in (holder, reopened):
        with pytest.raises(PermissionError):
            os.pwrite(descriptor, b"spoil", 0)
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)
    slab.view[0:1] = b"X"
    assert os.pread(slab.extent.descriptor, 5, 0) == b"bytes"


def test_seal_refuses_a_slab_that_somebody_has_mapped_for_writing(pool: SlabPool) -> None:
    slab = pool.allocate(5)
    assert slab is not None
    os.pwrite(slab.extent.descriptor, b"bytes", 0)
    mapping = mmap.mmap(slab.extent.descriptor, 5)
    with pytest.raises(OSError, match="busy") as caught:
        slab.seal()
    assert caught.value.errno == errno.EBUSY
    mapping.close()
    assert slab.seal() == 5


def test_seal_after_filling_through_the_view(pool: SlabPool) -> None:
    slab = pool.allocate(5)
    assert slab is not None
    slab.view[:] = b"bytes"
    assert slab.seal() == 5
    assert slab.view.tobytes() == b"bytes"


def test_seal_refuses_while_a_part_of_the_view_is_in_use(pool: SlabPool) -> None:
    slab = pool.allocate(5)
    assert slab is not None
    part = slab.view[1:3]
    with pytest.raises(BufferError):
        slab.seal()
    slab.view[:] = b"still"
    part.release()
    assert slab.seal() == 5


def test_threads_allocate_and_free_without_losing_count(pool: SlabPool) -> None:
    before = open_descriptors()

    def work() -> None:
        for size in range(1, 300):
            slab = pool.allocate(size)
            if slab is not None:
                twins = [threading.Thread(target=slab.free) for _ in range(2)] if size % 50 == 0 else []
                for twin in twins:
                    twin.start()
                slab.free()
                for twin in twins:
                    twin.join()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.used_bytes == 0
    assert open_descriptors() == before
