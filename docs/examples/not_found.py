"""Not found: the load of a key finds nothing, as if the object was evicted after its lookup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvchaos.results import Result

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.plan import BatchPlan


@dataclass(frozen=True, slots=True)
class NotFound:
    """An object that was evicted between lookup and load."""

    kind: str = "not_found"

    def apply(self, position: int, plan: BatchPlan) -> None:
        """Settles the key as NOT_FOUND."""
        plan.settle(position, Result.NOT_FOUND)
