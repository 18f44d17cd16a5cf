"""What was changed at runtime, and taking back the last change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvchaos_sidecar.config.effective import RuntimeValue
from kvchaos_sidecar.rules.rulebook import Added, Switched


@dataclass(frozen=True, slots=True)
class RuntimeState:
    """Everything that lies over the document at one moment."""

    values: Mapping[str, RuntimeValue]
    """By field of ``fault_inject``."""
    added: Mapping[str, Added]
    switched: Mapping[str, Switched]
    halt_reason: str | None
    """None when not halted."""


@dataclass(frozen=True, slots=True)
class _Change:
    number: int
    before: RuntimeState
    after: RuntimeState


class Past:
    """Remembers the last change."""

    def __init__(self) -> None:
        self._last: _Change | None = None
        self._changes = 0

    def note(self, before: RuntimeState, after: RuntimeState) -> int:
        """A change was made. Returns its number, from 1."""
        self._changes += 1
        self._last = _Change(self._changes, before, after)
        return self._changes

    def before(self, number: int, now: RuntimeState) -> RuntimeState | None:
        """The state to go back to; None when ``number`` is not the last change or ``now`` is not
        what it led to."""
        last = self._last
        return last.before if last and last.number == number and last.after == now else None
