"""What the engine asks of a rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kvchaos_sidecar.rules.verdict import Call, Hit, Operation


class Rule(Protocol):
    """Match, select and fault in one: it looks at batches and says which positions are hit, and by what.

    Any thread may call these methods.
    """

    @property
    def name(self) -> str:
        """Unique in its rule set; a label in metrics."""

    @property
    def operations(self) -> frozenset[Operation]:
        """The operations it looks at; empty when it can never fire."""

    def evaluate(self, call: Call) -> Sequence[Hit]:
        """The positions that are hit, ascending, each with the first reason that applies."""

    def explain(self, call: Call) -> Sequence[Hit]:
        """The same positions with every reason that applies and the numbers behind it. Counts nothing."""
