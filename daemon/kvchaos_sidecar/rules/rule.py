"""What the engine asks of a rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.strike import Strike

if TYPE_CHECKING:
    from kvchaos_sidecar.rules.verdict import Hit

Identity = tuple[str, int, int, str]
"""What the keys of one prompt share: model name, rank, object group and salt."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one rule says about one batch."""

    evaluated: int
    """Positions that it looked at."""
    strike: Strike | None
    """None when it does not fire."""


class Rule(Protocol):
    """Match, select and fault in one: it looks at batches and says which positions are hit, and by what.

    Any thread may call these methods; those that count expect one thread.
    """

    @property
    def name(self) -> str:
        """Unique in its rule set; a label in metrics."""

    @property
    def operations(self) -> frozenset[Operation]:
        """The operations it looks at; empty when it can never fire."""

    def concerns(self, client_name: str, identity: Identity | None) -> bool:
        """Whether it looks at such keys at all; ``identity`` is None for a call without keys."""

    def evaluate(self, call: Call, positions: Sequence[int]) -> Evaluation:
        """What it does to those of ``positions`` (ascending) that it selects."""

    def explain(self, call: Call, positions: Sequence[int]) -> Sequence[Hit]:
        """The same positions with every reason that applies and the numbers behind it. Counts nothing."""
