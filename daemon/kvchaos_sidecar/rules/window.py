"""When a rule is active, in time since it was armed."""

from __future__ import annotations

from math import inf

from kvchaos_sidecar.config.rule import When


class Window:
    """The times of a :class:`When`, in seconds since the rule was armed."""

    def __init__(self, when: When) -> None:
        self._begins = when.after.total_seconds() if when.after else 0.0
        self._ends = inf
        if when.length:
            self._ends = self._begins + when.length.total_seconds()
        elif when.until:
            self._ends = when.until.total_seconds()
        self._ramp = when.ramp.total_seconds() if when.ramp else 0.0
        self._every = when.repeat.every.total_seconds() if when.repeat else 0.0
        self._length = when.repeat.length.total_seconds() if when.repeat else 0.0

    def is_open(self, elapsed: float) -> bool:
        """Whether the rule is active then."""
        if not self._begins <= elapsed < self._ends:
            return False
        return not self._every or (elapsed - self._begins) % self._every < self._length

    def is_over(self, elapsed: float) -> bool:
        """Whether the rule is never active again."""
        return elapsed >= self._ends

    def ramp(self, elapsed: float) -> float:
        """By what the rate is multiplied then, from 0 to 1."""
        return min(1.0, (elapsed - self._begins) / self._ramp) if self._ramp else 1.0
