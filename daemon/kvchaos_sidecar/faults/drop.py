"""Drop: the load of a key fails although lookup reported it present, and its destination is poisoned."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kvchaos.results import Result

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.plan import BatchPlan


class PoisonKind(StrEnum):
    """What the destination of a dropped key is filled with."""

    NAN = "nan"
    BYTE = "byte"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Poison:
    """How to spoil a destination. 0xFF bytes read as NaN in float8, 16, 32, 64 and bfloat16."""

    kind: PoisonKind = PoisonKind.NAN
    fill: int = 0xFF


@dataclass(frozen=True, slots=True)
class Drop:
    """The classic fault (LMCache's fault_inject): no backend I/O, result DROPPED."""

    poison: Poison = Poison()
    kind: str = "drop"

    def apply(self, position: int, plan: BatchPlan) -> None:
        """Settles the key as DROPPED."""
        plan.settle(position, Result.DROPPED)
        plan.poison = self.poison
