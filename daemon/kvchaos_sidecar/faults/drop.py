"""Drop: the load of a key fails although lookup reported it present, and its destination is poisoned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos.results import Result
from kvchaos_sidecar.config.fields import PoisonField
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.faults.poison import Poison
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Drop(Fault):
    """Fails the load of a key without asking the store, and has the client spoil the destination.

    The classic fault, LMCache's `fault_inject`. A cache server that ignores the failure and uses the buffer
    shows it at once.
    """

    kind = "drop"
    operations = frozenset({Operation.LOAD})

    poison: PoisonField = Poison()
    """What the destination is filled with."""

    async def before(self, selected: Selected, batch: Batch) -> None:
        for position in selected.positions:
            batch.settle(position, Result.DROPPED)
        batch.poison = self.poison
