"""Files that appear whole under their name, in one step, or not at all.

Where the file system can, a pending file has no name (``O_TMPFILE``), so that the kernel removes it however
its owner ends. Elsewhere it has a random name in a directory of its own, and an ``flock`` tells the pending
files of a living process from what a killed one left. Either way it is published by a hard link, which
fails rather than replace a file that is there. Nothing is synced to disk, as in LMCache's adapters: a power
cut may lose or damage recent objects, a killed process never does.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import threading
import uuid
from contextlib import suppress

_KEEP_SIZE = 1
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.ENOSYS)
_NO_UNNAMED_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)
_OPEN_MODE = 0o666
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class PendingFile:
    """A file that is being written. Ends in :meth:`publish` or :meth:`discard`, whichever is first.

    Attributes:
        descriptor: open for reading and writing until the end.
    """

    def __init__(self, descriptor: int, source: bytes, temporary: bytes | None) -> None:
        self.descriptor = descriptor
        self._source = source
        self._temporary = temporary
        self._claimed = threading.Lock()

    def publish(self, path: bytes, size: int) -> bool:
        """Makes the file visible as ``path`` when it has exactly ``size`` bytes, and ends it either way.

        Returns whether the size was right.

        Raises:
            FileExistsError: there is a file of that name; it stays as it is.
            ValueError: the file has ended before.
            OSError: it cannot be linked.
        """
        if not self.claim():
            raise ValueError("the pending file has ended")
        try:
            if os.fstat(self.descriptor).st_size != size:
                return False
            # os.link follows the link in /proc/self/fd only when a src_dir_fd, here unused, is given.
            os.link(self._source, path, src_dir_fd=self.descriptor, follow_symlinks=True)
            return True
        finally:
            self.remove()

    def discard(self) -> None:
        """Removes the file, unless it has ended. Never raises; from any thread."""
        if self.claim():
            self.remove()

    def claim(self) -> bool:
        """True for the first caller, who then owes a call of :meth:`remove`. Does not block."""
        return self._claimed.acquire(blocking=False)

    def remove(self) -> None:
        """Closes the file and takes its temporary name away. Never raises."""
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(self._temporary)
        with suppress(OSError):
            os.close(self.descriptor)


class AtomicFiles:
    """Makes pending files in one directory."""

    def __init__(self, directory: bytes, temporary_directory: bytes, reserve: bool) -> None:
        """Both directories must exist, in one file system. Removes what killed processes left pending.

        Args:
            reserve: set room aside for a file when it is made.

        Raises:
            OSError: the directories cannot be written, or their file system has no hard links.
        """
        self._directory = directory
        self._temporary_directory = temporary_directory
        self._reserve = reserve
        self._remove_abandoned()
        self.unnamed = self._can_make_unnamed()
        self._try_to_publish()

    def create(self, size: int) -> PendingFile:
        """An empty pending file, for ``size`` bytes.

        Raises:
            OSError: no room (ENOSPC, EDQUOT), or the file cannot be made.
        """
        pending = self._make_unnamed() if self.unnamed else self._make_named()
        if self._reserve:
            try:
                _set_aside(pending.descriptor, size)
            except OSError:
                pending.discard()
                raise
        return pending

    def _make_unnamed(self) -> PendingFile:
        descriptor = os.open(self._directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, _OPEN_MODE)
        return PendingFile(descriptor, b"/proc/self/fd/%d" % descriptor, None)

    def _make_named(self) -> PendingFile:
        path = self._temporary_path()
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, _OPEN_MODE)
        with suppress(OSError):  # without locks nobody removes it while it is pending, or after
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return PendingFile(descriptor, path, path)

    def _temporary_path(self) -> bytes:
        return os.path.join(self._temporary_directory, uuid.uuid4().hex.encode())

    def _can_make_unnamed(self) -> bool:
        try:
            self._make_unnamed().discard()
        except OSError as error:
            if error.errno in _NO_UNNAMED_FILES:
                return False
            raise
        return os.path.isdir("/proc/self/fd")

    def _try_to_publish(self) -> None:
        path = self._temporary_path()
        self.create(0).publish(path, 0)
        os.unlink(path)

    def _remove_abandoned(self) -> None:
        with os.scandir(self._temporary_directory) as entries:
            for entry in entries:
                with suppress(OSError):
                    _remove_unless_locked(entry.path)


def _remove_unless_locked(path: bytes) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    finally:
        os.close(descriptor)


def _set_aside(descriptor: int, size: int) -> None:
    """Room for the file, where the file system can do that."""
    if size == 0 or _libc.fallocate(descriptor, _KEEP_SIZE, 0, size) == 0:
        return
    number = ctypes.get_errno()
    if number not in _CANNOT_RESERVE:
        raise OSError(number, os.strerror(number))
