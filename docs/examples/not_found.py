"""Not found: the load of a key finds nothing, as if the object was evicted after its lookup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos.results import Result
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class NotFound(Fault):
    """An object that was evicted between lookup and load."""

    kind = "not_found"
    operations = frozenset({Operation.LOAD})

    async def before(self, selected: Selected, batch: Batch) -> None:
        for position in selected.positions:
            batch.settle(position, Result.NOT_FOUND)
