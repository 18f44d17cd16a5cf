"""Keep then refuse: a store is reported as failed, and the object is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos.results import Result
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class KeepThenRefuse(Fault):
    """Stores an object, visible to everybody, and reports an I/O error."""

    kind = "keep_then_refuse"
    operations = frozenset({Operation.STORE})

    async def after_publish(self, selected: Selected, batch: Batch) -> None:
        for position in selected.positions:
            batch.overrule(position, Result.IO_ERROR)
