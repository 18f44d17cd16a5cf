"""How long to wait before trying again: longer each time, up to a bound, and never in step with others."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential growth with jitter."""

    first_s: float = 0.1
    """Upper bound of the first delay."""
    max_s: float = 5.0
    """Upper bound of every delay."""

    def delay_s(self, failures: int, chance: random.Random) -> float:
        """The delay after ``failures`` failures in a row: between half of its bound and all of it."""
        bound = min(self.max_s, self.first_s * 2.0 ** min(failures - 1, 32))
        return bound * chance.uniform(0.5, 1.0)
