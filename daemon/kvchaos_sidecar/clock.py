"""Time as an argument."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where a component gets the time."""

    def monotonic(self) -> float:
        """Seconds that never go back, for durations and deadlines."""

    def time(self) -> float:
        """Seconds since the epoch, for people."""


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """As ``time.monotonic``."""
        return time.monotonic()

    def time(self) -> float:
        """As ``time.time``."""
        return time.time()


class ManualClock:
    """A clock that moves only when told to, for tests."""

    def __init__(self, epoch_s: float = 0.0) -> None:
        """``epoch_s`` is what :meth:`time` says at first; :meth:`monotonic` starts at 0."""
        self._elapsed_s = 0.0
        self._epoch_s = epoch_s

    def monotonic(self) -> float:
        """Seconds advanced so far."""
        return self._elapsed_s

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._epoch_s + self._elapsed_s

    def advance(self, seconds: float) -> None:
        """Moves the clock forward. Raises ValueError when ``seconds`` is negative."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back by {-seconds} s")
        self._elapsed_s += seconds
