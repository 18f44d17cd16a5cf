"""The names in a directory, in order: read once for all pages of a listing."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice


class DirectoryNames:
    """Reading and sorting a large directory takes longer than anything else of a page. Thread-safe."""

    def __init__(self, directory: bytes) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._kept: Sequence[bytes] | None = None

    @property
    def are_kept(self) -> bool:
        """Whether names are held in memory."""
        return self._kept is not None

    def after(self, name: bytes) -> Iterator[bytes]:
        """The names that follow ``name``; all for an empty one.

        An empty one begins a listing and reads the directory; others go on with what was read last. So a
        listing misses what comes into the directory after it began, and names what has left it since.

        Raises:
            OSError: the directory cannot be read.
        """
        with self._lock:
            if not name or self._kept is None:
                self._kept = sorted(os.listdir(self._directory))
            names = self._kept
        return islice(names, bisect_right(names, name), None)

    def forget(self) -> None:
        """Lets go of the memory. A listing under way reads the directory once more."""
        self._kept = None
