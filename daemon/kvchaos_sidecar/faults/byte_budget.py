"""Byte budget: the store has room for so many bytes, and then says ENOSPC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos.results import Result
from kvchaos_sidecar.config.fields import Count
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class ByteBudget(Fault):
    """Refuses what would make the store hold more than a number of bytes. Deleting makes room again.

    What the store holds is its usage: what was stored and deleted through this daemon.
    """

    kind = "byte_budget"
    operations = frozenset({Operation.STORE})

    bytes: Count
    """What the store may hold."""

    async def before(self, selected: Selected, batch: Batch) -> None:
        held = await batch.stored_bytes()
        for position in selected.positions:
            held += batch.call.sizes[position]
            if held > self.bytes:
                batch.settle(position, Result.NO_SPACE)
