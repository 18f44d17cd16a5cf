"""A fault: what happens to a key that a rule selects. Each kind is one small file in this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.plan import BatchPlan


class Fault(Protocol):
    """Immutable settings of one kind of fault."""

    @property
    def kind(self) -> str:
        """The name in rule files, metrics and logs."""

    def apply(self, position: int, plan: BatchPlan) -> None:
        """Changes what happens to the key at ``position`` of the batch."""
