"""The files of a directory of objects: one blocking call for one key each.

Symbolic links, directories and anything else that is not a regular file are not objects, whatever their
name: a descriptor of one is never handed out.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.atomic_files import AtomicFiles, PendingFile
from kvchaos_sidecar.backends.directory_names import DirectoryNames
from kvchaos_sidecar.backends.file_systems import is_in_memory
from kvchaos_sidecar.backends.filenames import from_file_name, to_file_name

_TEMPORARY = b".kvchaos-tmp"
# O_NONBLOCK: opening a FIFO must not wait for a writer.
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_RESULTS = {
    errno.ENOSPC: Result.NO_SPACE,
    errno.EDQUOT: Result.NO_SPACE,
    errno.ENAMETOOLONG: Result.INVALID,
    errno.EINVAL: Result.INVALID,
    errno.EFBIG: Result.INVALID,
}

_log = logging.getLogger(__name__)


class ObjectFiles:
    """The object files in one directory, which other processes may use as well. Thread-safe.

    Attributes:
        in_memory: whether its calls never wait for a device.
        names: what is in the directory, objects and other things.
    """

    def __init__(self, directory: str) -> None:
        """Makes the directory, with its parents, unless it exists.

        Raises:
            OSError: it cannot be made, read or written, or its file system has no hard links.
        """
        os.makedirs(directory, exist_ok=True)
        os.listdir(directory)
        self._directory = os.fsencode(os.path.join(directory, ""))
        temporary = self._directory + _TEMPORARY
        with suppress(FileExistsError):
            os.mkdir(temporary, 0o700)
        self.in_memory = is_in_memory(directory)
        self.names = DirectoryNames(self._directory)
        # In memory, setting room aside is most of the work of writing (docs/performance.md); the writer does
        # it, and is the one to hear when there is none left.
        self._atomic = AtomicFiles(self._directory, temporary, reserve=not self.in_memory)

    def exists(self, key: ObjectKey) -> bool:
        """Whether there is an object of that key."""
        path = self._path(key)
        return path is not None and _size(path) is not None

    def open(self, key: ObjectKey, size: int) -> int | Result:
        """A descriptor to read the object of exactly ``size`` bytes with; otherwise why not."""
        path = self._path(key)
        if path is None:
            return Result.INVALID
        try:
            descriptor = os.open(path, _READ_FLAGS)
        except FileNotFoundError:
            return Result.NOT_FOUND
        except OSError as error:
            return Result.NOT_FOUND if error.errno == errno.ELOOP else _result(error)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size == size:
            return descriptor
        os.close(descriptor)
        return Result.SIZE_MISMATCH if stat.S_ISREG(status.st_mode) else Result.NOT_FOUND

    def create(self, key: ObjectKey, size: int) -> PendingFile | Result:
        """A pending file with room for the object; PRESENT when there is one already; otherwise why not."""
        path = self._path(key)
        if path is None or size < 1:
            return Result.INVALID
        if os.access(path, os.F_OK, follow_symlinks=False):
            return Result.PRESENT
        try:
            return self._atomic.create(size)
        except OSError as error:
            return _result(error)

    def publish(self, key: ObjectKey, pending: PendingFile, size: int) -> Result:
        """Makes a pending file of exactly ``size`` bytes the object of that key. Ends it either way."""
        path = self._path(key)
        if path is None:
            pending.discard()
            return Result.INVALID
        try:
            return Result.OK if pending.publish(path, size) else Result.SIZE_MISMATCH
        except FileExistsError:
            return Result.PRESENT
        except ValueError:
            return Result.INVALID
        except OSError as error:
            return _result(error)

    def delete(self, key: ObjectKey) -> int | Result:
        """Deletes the object. Its size in bytes; otherwise why not."""
        path = self._path(key)
        if path is None:
            return Result.INVALID
        try:
            size = _size(path)
            if size is None:
                return Result.NOT_FOUND
            os.unlink(path)
        except FileNotFoundError:
            return Result.NOT_FOUND
        except OSError as error:
            return _result(error)
        return size

    def entries(self, after: bytes) -> Iterator[tuple[bytes, ObjectKey, int]]:
        """File name, key and size in bytes of every object whose name follows ``after``, in name order."""
        for name in self.names.after(after):
            key = from_file_name(name)
            size = None if key is None else _size(self._directory + name)
            if key is not None and size is not None:
                yield name, key, size

    def _path(self, key: ObjectKey) -> bytes | None:
        name = to_file_name(key)
        return None if name is None else self._directory + name


def _size(path: bytes) -> int | None:
    """Size in bytes of a regular file, None for anything else or nothing."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _result(error: OSError) -> Result:
    result = _RESULTS.get(error.errno or 0)
    if result is None:
        _log.warning("%s", error)
    return result or Result.IO_ERROR
