"""How the call in progress comes out, for its time in the metrics.

The data plane notes it where it learns it; the boundary, which keeps the time, reads it. Both run in the
task of the call, so a context variable joins them without a parameter in every signature between.
"""

from __future__ import annotations

from contextvars import ContextVar
from enum import StrEnum


class Outcome(StrEnum):
    """What the time of a call was spent on."""

    SERVED = "served"
    """Nothing interfered; keys that are not there are told truthfully."""
    FAULTED = "faulted"
    """A rule struck, whatever else happened."""
    FAILED = "failed"
    """The call failed or was given up, or the store failed a key, without a rule."""


_noted: ContextVar[Outcome] = ContextVar("kvchaos_outcome", default=Outcome.SERVED)


def begin() -> None:
    """A call starts; so far nothing has interfered."""
    _noted.set(Outcome.SERVED)


def note_fault() -> None:
    """A rule strikes the call."""
    _noted.set(Outcome.FAULTED)


def note_failure() -> None:
    """The call or one of its keys failed. What a rule has struck stays faulted."""
    if _noted.get() is Outcome.SERVED:
        _noted.set(Outcome.FAILED)


def noted() -> Outcome:
    """How the call comes out, as far as it is known."""
    return _noted.get()
