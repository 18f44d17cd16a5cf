"""Hide: lookup says that an object is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos.results import Result
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Hide(Fault):
    """Reports a key as missing, present or not. It is not locked."""

    kind = "hide"
    operations = frozenset({Operation.LOOKUP})

    async def before(self, selected: Selected, batch: Batch) -> None:
        for position in selected.positions:
            batch.settle(position, Result.NOT_FOUND)
