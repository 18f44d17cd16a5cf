"""Anonymous shared memory that can be handed to another process, under a byte budget.

Every slab is a memfd of its own, not a range of one large memfd. A descriptor gives its holder the whole
file, so a shared file would let a client write over the objects of other sessions, and a client that reads
on after its lease has ended would get the bytes of whoever has the range now and take them for its own.
With a file for each slab a late reader still sees the right bytes, and the kernel takes the pages back
when the last holder has closed. It costs no more: creating and closing a memfd takes 1.6 microseconds,
and filling a fresh one with 4 MiB as long as refilling a range whose pages were returned by a hole punch
(0.75 to 0.9 ms). The price is one descriptor for each slab in use, which ``max_slabs`` bounds.

What a client can do with a writable slab is limited by seals: :attr:`Slab.view` fixes the length before it
maps, so that nobody can truncate the file under the daemon's mapping (which would kill the daemon with
SIGBUS), and :meth:`Slab.seal` ends all writing before anybody else is shown the bytes.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from contextlib import suppress

from kvchaos_sidecar.backends.contract import Extent

_FIXED_LENGTH = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_IMMUTABLE = _FIXED_LENGTH | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
_OUT_OF_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)


class SlabPool:
    """Hands out slabs while their sizes add up to no more than a budget. Thread-safe.

    Attributes:
        budget_bytes: what the sizes of all slabs in use may add up to. The kernel holds whole pages.
        max_slabs: how many slabs may be in use; None for as many as the process may have descriptors.
    """

    def __init__(self, budget_bytes: int, name: str, max_slabs: int | None = None) -> None:
        self.budget_bytes = budget_bytes
        self.max_slabs = max_slabs
        self._name = name
        self._lock = threading.Lock()
        self._slabs: set[Slab] = set()
        self._used_bytes = 0

    @property
    def used_bytes(self) -> int:
        """Sum of the sizes of the slabs in use."""
        return self._used_bytes

    def allocate(self, size: int) -> Slab | None:
        """An empty slab with room for ``size`` bytes; None when budget, memory or descriptors are spent.

        Raises:
            ValueError: ``size`` is less than 1.
        """
        if size < 1:
            raise ValueError(f"a slab of {size} bytes cannot be made; the least is 1")
        with self._lock:
            if self._used_bytes + size > self.budget_bytes or len(self._slabs) == self.max_slabs:
                return None
            try:
                descriptor = os.memfd_create(self._name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            except OSError as error:
                if error.errno in _OUT_OF_ROOM:
                    return None
                raise
            slab = Slab(self, descriptor, size)
            self._slabs.add(slab)
            self._used_bytes += size
            return slab

    def close(self) -> None:
        """Frees every slab still in use. Idempotent."""
        with self._lock:
            slabs = list(self._slabs)
        for slab in slabs:
            slab.free()

    def _forget(self, slab: Slab) -> None:
        with self._lock:
            self._slabs.discard(slab)
            self._used_bytes -= slab.extent.length


class Slab:
    """Room for one object. Made by :meth:`SlabPool.allocate`.

    It is filled either through its descriptor (``os.pwrite``, from offset 0) or through :attr:`view`.

    Attributes:
        extent: the whole file. Its descriptor is valid until :meth:`free`.
    """

    def __init__(self, pool: SlabPool, descriptor: int, size: int) -> None:
        self.extent = Extent(descriptor, 0, size)
        self._pool = pool
        self._lock = threading.Lock()
        self._sealed = False
        self._freed = False
        self._mapping: mmap.mmap | None = None
        self._view: memoryview | None = None

    @property
    def view(self) -> memoryview:
        """Exactly the slab's bytes, in memory.

        Before :meth:`seal` it is shared with every holder of the descriptor, and fixes the length: what
        was not written reads as zero. After it, it is private: writing to it changes no one's bytes.

        Raises:
            ValueError: the slab has been freed.
            OSError: the slab cannot be mapped.
        """
        with self._lock:
            self._check_in_use()
            if self._mapping is None:
                self._mapping = self._map()
            if self._view is None:
                self._view = memoryview(self._mapping)
            return self._view

    def seal(self) -> int:
        """Makes the slab immutable for every holder of its descriptor. Returns the length found, in bytes.

        Views taken before are no longer valid.

        Raises:
            BufferError: something still uses a view taken before.
            OSError: EBUSY when another process has mapped it for writing.
            ValueError: the slab has been freed.
        """
        with self._lock:
            self._check_in_use()
            self._unmap()
            fcntl.fcntl(self.extent.descriptor, fcntl.F_ADD_SEALS, _IMMUTABLE)
            self._sealed = True
            return os.fstat(self.extent.descriptor).st_size

    def free(self) -> None:
        """Closes the descriptor and gives the budget back. Idempotent; never raises; from any thread.

        The pages go back to the kernel when every other holder has closed too.
        """
        with self._lock:
            if self._freed:
                return
            self._freed = True
            with suppress(BufferError):  # whoever still uses the view keeps the mapping alive
                self._unmap()
            self._mapping = None
            os.close(self.extent.descriptor)
        self._pool._forget(self)

    def _map(self) -> mmap.mmap:
        descriptor, _, size = self.extent
        if not self._sealed:
            os.ftruncate(descriptor, size)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _FIXED_LENGTH)
        access = mmap.ACCESS_COPY if self._sealed else mmap.ACCESS_WRITE
        return mmap.mmap(descriptor, size, access=access)

    def _unmap(self) -> None:
        if self._view is not None:
            self._view.release()
            self._view = None
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None

    def _check_in_use(self) -> None:
        if self._freed:
            raise ValueError("the slab has been freed")
