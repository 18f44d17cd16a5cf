"""Force delete: the store loses an object between its lookup and its load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class ForceDelete(Fault):
    """Deletes the selected objects at the barrier between a session's lookup answer and its load.

    On `lookup` this happens when the answer is settled, just before the client hears of it; on `load` just
    before the store is asked. Locks do not protect the object: its store lost it.
    """

    kind = "force_delete"
    operations = frozenset({Operation.LOOKUP, Operation.LOAD})

    async def before(self, selected: Selected, batch: Batch) -> None:
        if batch.call.operation is Operation.LOAD:
            await batch.delete([batch.keys[position] for position in selected.positions])

    async def after(self, selected: Selected, batch: Batch) -> None:
        if batch.call.operation is Operation.LOOKUP:
            await batch.delete([batch.keys[position] for position in selected.positions])
