"""What a running recovery tells about itself, and how its time is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from kvchaos_blend.plan import Plan

Clock = Callable[[], float]
"""Seconds on a monotonic clock."""


class Phase(Enum):
    """Where the time of a recovery goes."""

    HASH = "hash"
    LOOKUP = "lookup"
    LOAD = "load"
    """Waiting for chunks; what loads while something is computed costs nothing here."""
    SCATTER = "scatter"
    RECOMPUTE = "recompute"
    LAST_TOKEN = "last_token"  # noqa: S105
    CONTINUE = "continue"
    VERIFY = "verify"
    HEAL = "heal"
    UNLOCK = "unlock"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A phase began."""

    phase: Phase


@dataclass(frozen=True, slots=True)
class ChunkSettled:
    """A chunk is in the pool, or will not come."""

    chunk: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Planned:
    """What becomes of the prompt, as far as it is known now."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class LayerStarted:
    """A forward pass over ``tokens`` tokens reached a layer."""

    layer: int
    layers: int
    tokens: int


@dataclass(frozen=True, slots=True)
class TokenMade:
    """The greedy continuation grew."""

    token: int


Event = PhaseStarted | ChunkSettled | Planned | LayerStarted | TokenMade
OnEvent = Callable[[Event], None]


class Stopwatch:
    """Adds up the time spent in each phase."""

    def __init__(self, clock: Clock, on_event: OnEvent, settle: Callable[[], None] = lambda: None) -> None:
        """``settle`` waits for a device's queued work, so that it counts where it was queued."""
        self._clock = clock
        self._on_event = on_event
        self._settle = settle
        self._began_s = clock()
        self.seconds: dict[Phase, float] = {}

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Counts the time in the block as ``phase``, also when it raises. Announces its first time."""
        if phase not in self.seconds:
            self._on_event(PhaseStarted(phase))
        began_s = self._clock()
        try:
            yield
            self._settle()
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + self._clock() - began_s

    @property
    def total_s(self) -> float:
        """Time since the stopwatch was made."""
        return self._clock() - self._began_s

    def by_name(self) -> dict[str, float]:
        """Seconds by the phase's name, for reports."""
        return {phase.value: seconds for phase, seconds in self.seconds.items()}
