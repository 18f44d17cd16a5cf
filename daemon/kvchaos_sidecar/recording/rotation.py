"""A file that begins anew when it is full, keeping a few of its former selves."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path


class RotatingFile:
    """Appends lines. PATH is the newest file, PATH.1 the one before it, and so on.

    Attributes:
        part: number of the newest file, from 1; those that begin anew count on.
    """

    def __init__(self, path: Path, max_bytes: int, files: int, header: Callable[[int], bytes]) -> None:
        """``header`` makes the first line of a part. ``files``: how many there are at most.

        Moves away what is at the path already.

        Raises:
            OSError: the file cannot be made.
        """
        self.part = 0
        self._path = path
        self._max_bytes = max_bytes
        self._files = files
        self._header = header
        self._descriptor = -1
        self._begin()

    def append(self, line: bytes) -> None:
        """Writes a whole line, or nothing of it. Raises OSError."""
        if self._size + len(line) > self._max_bytes and self._size > self._header_bytes:
            self._begin()
        _write_whole(self._descriptor, line, self._size)
        self._size += len(line)

    def close(self) -> None:
        """Closes the file. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _begin(self) -> None:
        self._move_away()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        header = self._header(self.part + 1)
        try:
            _write_whole(descriptor, header, 0)
        except OSError:
            os.close(descriptor)
            self._path.unlink()
            raise
        self.close()
        self._descriptor = descriptor
        self._size = self._header_bytes = len(header)
        self.part += 1

    def _move_away(self) -> None:
        if not self._path.exists():
            return
        if not self._path.is_file():
            raise FileExistsError(errno.EEXIST, "it is there and not a regular file")
        names = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._files))]
        if len(names) == 1:
            self._path.unlink()
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)


def _write_whole(descriptor: int, line: bytes, offset: int) -> None:
    """Writes a line at an offset, the end of the file, or leaves the file as it is. Raises OSError."""
    done = 0
    try:
        while done < len(line):
            done += os.pwrite(descriptor, line[done:], offset + done)
    except OSError:
        os.ftruncate(descriptor, offset)
        raise
