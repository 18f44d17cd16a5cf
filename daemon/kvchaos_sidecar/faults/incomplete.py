"""Incomplete: a listing leaves keys out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos.results import Result
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Incomplete(Fault):
    """Leaves keys out of a listing. A page may come back shorter, or empty, with more pages behind."""

    kind = "incomplete"
    operations = frozenset({Operation.LIST})

    async def before(self, selected: Selected, batch: Batch) -> None:
        for position in selected.positions:
            batch.settle(position, Result.NOT_FOUND)
