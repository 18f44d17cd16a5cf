"""Memory of ours as the memory objects that LMCache's adapters read and write."""

from __future__ import annotations

import ctypes
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable

from lmcache.v1.distributed.internal_api import L1MemoryDesc
from lmcache.v1.memory_management import (
    AddressManager,
    MemoryFormat,
    MemoryObjMetadata,
    TensorMemoryObj,
)
from lmcache.v1.platform import resolve_device_ops

ALIGN_BYTES = mmap.PAGESIZE


class HostObject(TensorMemoryObj):  # type: ignore[misc]
    """Bytes at a place in host memory, as one flat tensor of bytes.

    The memory has to stay mapped for as long as an adapter may touch it: the tensor does not hold it.
    """

    def __init__(self, view: memoryview, arena_offset: int = 0) -> None:
        """``arena_offset``: where in the registered memory the bytes are, if there is any."""
        size = len(view)
        metadata = MemoryObjMetadata.from_dict(
            {
                "shape": [size],
                "dtype": "uint8",
                "address": arena_offset,
                "phy_size": -(-size // ALIGN_BYTES) * ALIGN_BYTES,
                "ref_count": 1,
                "fmt": MemoryFormat.BINARY_BUFFER.value,
                "shapes": None,
                "dtypes": None,
            }
        )
        tensor = resolve_device_ops("cpu").tensor_from_ptr(
            _address_of(view), metadata.shape, metadata.dtype, None
        )
        super().__init__(tensor, metadata, None)
        self._view = view

    @property
    def byte_array(self) -> memoryview:
        """The bytes. Whoever holds this keeps them mapped."""
        return self._view


class Buffer:
    """One object's memory while an adapter has it.

    Attributes:
        memory_object: what the adapter gets.
    """

    def __init__(self, memory_object: HostObject) -> None:
        self.memory_object = memory_object

    def land(self) -> None:
        """Brings what the adapter has loaded to where the client will read it."""

    def release(self) -> None:
        """The adapter is done with it."""


class AdapterMemory(ABC):
    """Where the adapter reads and writes."""

    l1_memory_desc: L1MemoryDesc | None = None
    """What the adapter may register with a network or a device."""
    copies: bool
    """Whether bytes are copied as an adapter gets its memory, or when it is done with it."""

    @abstractmethod
    def for_load(self, view: memoryview) -> Buffer:
        """Memory whose bytes end in ``view``. Raises MemoryError."""

    @abstractmethod
    def for_store(self, view: memoryview) -> Buffer:
        """Memory with the bytes of ``view``. Raises MemoryError."""


class StagedMemory(AdapterMemory):
    """The adapter works on the memory that is granted to the client, without a copy in between."""

    copies = False

    def for_load(self, view: memoryview) -> Buffer:
        return Buffer(HostObject(view))

    def for_store(self, view: memoryview) -> Buffer:
        return Buffer(HostObject(view))


class RegisteredMemory(AdapterMemory):
    """One contiguous run of memory, for adapters that register it once: it costs a copy for each object.

    The memory that is granted to clients cannot be registered, because it is no single run.
    """

    copies = True

    def __init__(self, size: int) -> None:
        """Reserves ``size`` bytes; the kernel finds pages for them as they are used."""
        self._mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._view = memoryview(self._mapping)
        self._addresses = AddressManager(size, ALIGN_BYTES)
        self.l1_memory_desc = L1MemoryDesc(_address_of(self._view), size, ALIGN_BYTES)

    def for_load(self, view: memoryview) -> Buffer:
        return _ArenaBuffer(*self._allocate(len(view)), view)

    def for_store(self, view: memoryview) -> Buffer:
        memory_object, release = self._allocate(len(view))
        memory_object.byte_array[:] = view
        return _ArenaBuffer(memory_object, release, None)

    def _allocate(self, size: int) -> tuple[HostObject, Callable[[], None]]:
        try:
            offset, taken = self._addresses.allocate(size)
        except RuntimeError as error:
            raise MemoryError(str(error)) from error
        memory_object = HostObject(self._view[offset : offset + size], offset)
        return memory_object, lambda: self._addresses.free(offset, taken)


class _ArenaBuffer(Buffer):
    def __init__(
        self, memory_object: HostObject, release: Callable[[], None], destination: memoryview | None
    ) -> None:
        super().__init__(memory_object)
        self._release = release
        self._destination = destination

    def land(self) -> None:
        if self._destination is not None:
            self._destination[:] = self.memory_object.byte_array

    def release(self) -> None:
        self._release()


def _address_of(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))
