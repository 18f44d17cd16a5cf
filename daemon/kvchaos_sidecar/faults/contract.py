"""A fault: what happens to a key that a rule selects. Each kind is one small file in this package."""

from __future__ import annotations

from typing import Protocol


class Fault(Protocol):
    """Immutable settings of one kind of fault."""

    @property
    def kind(self) -> str:
        """The name in rule files, metrics and logs."""
