"""Memory objects over memory of ours."""

from __future__ import annotations

import mmap

import pytest

from kvchaos_sidecar.backends.lmcache.memory import ALIGN_BYTES, HostObject, RegisteredMemory, StagedMemory


def test_an_object_is_the_bytes_it_was_made_over() -> None:
    memory = memoryview(mmap.mmap(-1, 3 * ALIGN_BYTES))
    view = memory[ALIGN_BYTES : ALIGN_BYTES + 5000]
    made = HostObject(view)
    assert made.get_size() == len(made.byte_array) == made.tensor.numel() == 5000
    assert made.get_physical_size() == 2 * ALIGN_BYTES
    assert made.data_ptr % ALIGN_BYTES == 0
    view[:3] = b"abc"
    assert bytes(made.tensor[:3].tolist()) == b"abc"
    made.tensor[1] = ord("x")
    assert bytes(view[:3]) == b"axc"


def test_staged_memory_is_used_in_place() -> None:
    view = memoryview(bytearray(10))
    buffer = StagedMemory().for_load(view)
    buffer.memory_object.byte_array[:5] = b"hello"
    assert bytes(view[:5]) == b"hello"


def test_registered_memory_is_copied_from_and_to() -> None:
    registered = RegisteredMemory(4 * ALIGN_BYTES)
    base = registered.l1_memory_desc
    assert base is not None
    source, destination = memoryview(bytearray(b"source")), memoryview(bytearray(6))
    store, load = registered.for_store(source), registered.for_load(destination)
    assert bytes(store.memory_object.byte_array) == b"source"
    places = {buffer.memory_object.meta.address for buffer in (store, load)}
    assert places == {0, ALIGN_BYTES}
    assert load.memory_object.data_ptr == base.ptr + load.memory_object.meta.address
    load.memory_object.byte_array[:] = b"loaded"
    assert bytes(destination) == bytes(6)
    load.land()
    assert bytes(destination) == b"loaded"


def test_registered_memory_comes_back() -> None:
    registered = RegisteredMemory(2 * ALIGN_BYTES)
    room = memoryview(bytearray(ALIGN_BYTES))
    buffers = [registered.for_load(room), registered.for_load(room)]
    with pytest.raises(MemoryError):
        registered.for_load(room)
    buffers[0].release()
    registered.for_load(room)
