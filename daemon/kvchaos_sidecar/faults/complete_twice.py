"""Complete twice: the result of one load is handed out two times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class CompleteTwice(Fault):
    """Has the plugin signal and hand out the result of a load a second time, after it was taken."""

    kind = "complete_twice"
    operations = frozenset({Operation.LOAD})

    async def after(self, selected: Selected, batch: Batch) -> None:
        batch.completion = replace(batch.completion, twice=True)
