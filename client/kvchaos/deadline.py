"""A point in time by which an operation is to be over."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Deadline:
    """Ends ``timeout_s`` seconds from now, or at once when ``cancelled`` is set.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, timeout_s: float, clock: Callable[[], float], cancelled: threading.Event) -> None:
        self._clock = clock
        self._started = clock()
        self._ends = self._started + timeout_s
        self._cancelled = cancelled

    @property
    def remaining_s(self) -> float:
        """Seconds left, at least 0."""
        return 0.0 if self._cancelled.is_set() else max(0.0, self._ends - self._clock())

    def expired(self) -> bool:
        """Whether nothing is left."""
        return self.remaining_s <= 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was made."""
        return self._clock() - self._started
