"""Memory that the daemon fills and a client reads, used again only when the client has let go of it.

Filling warm memory is much faster than filling fresh memory, whose pages the kernel has to find first. But a
client that reads on after its lease has ended must never get the bytes of another object. So a client gets a
descriptor of its own, opened for reading only, and before a buffer is used again the kernel is asked whether
anybody still has that open: a write lease (``F_SETLEASE``) is given only for a file that nobody else holds
open, maps, or has on its way through a socket. A buffer that is not free by then is left to its holder.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
from collections import deque
from contextlib import suppress

_FIXED_LENGTH = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class SharedBuffer:
    """A memfd, mapped by the daemon and readable by whoever has its descriptor.

    Attributes:
        descriptor: opened for reading only. Valid until :meth:`free`.
        view: the daemon's own mapping, writable.
    """

    def __init__(self, size: int) -> None:
        """Raises OSError when memory or descriptors are spent."""
        made = os.memfd_create("kvchaos-staging", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(made, size)
            fcntl.fcntl(made, fcntl.F_ADD_SEALS, _FIXED_LENGTH)  # else a holder could truncate it under us
            self._mapping = mmap.mmap(made, size)
            self.descriptor = _reopen(made, os.O_RDONLY)
        finally:
            os.close(made)
        self.view = memoryview(self._mapping)

    def reclaim(self) -> bool:
        """Opens a new descriptor in place of the old one, unless somebody else still has the file open.

        Raises:
            OSError: descriptors are spent.
        """
        control = _reopen(self.descriptor, os.O_RDWR)
        try:
            os.close(self.descriptor)
            self.descriptor = -1
            if not _held_by_nobody_else(control):
                return False
            self.descriptor = _reopen(control, os.O_RDONLY)
        finally:
            os.close(control)
        return True

    def free(self) -> None:
        """Closes and unmaps. The pages go back to the kernel when every other holder has let go, too."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        self.view.release()
        with suppress(BufferError):  # whoever still uses a part of the view keeps the mapping alive
            self._mapping.close()


class BufferStock:
    """Buffers that nobody uses at present, kept for the next objects of the same size. Thread-safe."""

    def __init__(self, max_buffers: int) -> None:
        """``max_buffers``: how many are kept; each holds a descriptor."""
        self._max_buffers = max_buffers
        self._lock = threading.Lock()
        self._idle: dict[int, deque[SharedBuffer]] = {}
        self._idle_bytes = 0
        self._idle_buffers = 0

    def take(self, size: int) -> SharedBuffer | None:
        """A buffer of that size that nobody else has open; None when there is none."""
        while (buffer := self._take_oldest(size)) is not None:
            try:
                if buffer.reclaim():
                    return buffer
            except OSError:
                buffer.free()
                raise
            buffer.free()
        return None

    def put(self, buffer: SharedBuffer) -> None:
        """Keeps a buffer. Its descriptor may still be open elsewhere."""
        size = len(buffer.view)
        with self._lock:
            same_size = self._idle.pop(size, deque())
            same_size.append(buffer)
            self._idle[size] = same_size  # the size used last is the last to be trimmed
            self._idle_bytes += size
            self._idle_buffers += 1

    def trim(self, max_bytes: int) -> None:
        """Frees buffers, of the sizes unused for longest first, until at most ``max_bytes`` are idle."""
        for buffer in self._take_excess(max_bytes):
            buffer.free()

    def _take_excess(self, max_bytes: int) -> list[SharedBuffer]:
        excess = []
        with self._lock:
            while self._idle_bytes > max_bytes or self._idle_buffers > self._max_buffers:
                excess.append(self._pop(next(iter(self._idle))))
        return excess

    def _take_oldest(self, size: int) -> SharedBuffer | None:
        with self._lock:
            return self._pop(size) if size in self._idle else None

    def _pop(self, size: int) -> SharedBuffer:
        buffer = self._idle[size].popleft()
        if not self._idle[size]:
            del self._idle[size]
        self._idle_bytes -= size
        self._idle_buffers -= 1
        return buffer


def _reopen(descriptor: int, flags: int) -> int:
    """A file description of its own for the same file: what is done to one does not show in the other."""
    return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_CLOEXEC)


def _held_by_nobody_else(descriptor: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:  # EAGAIN: it is; anything else: the kernel cannot tell
        return False
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True
