"""Exchange results: two loads get the results of each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class ExchangeResults(Fault):
    """Has the plugin keep the result of a load until another selected one is finished, and then give each the
    other's. Halt hands out what waits for a partner."""

    kind = "exchange_results"
    operations = frozenset({Operation.LOAD})

    async def after(self, selected: Selected, batch: Batch) -> None:
        batch.completion = replace(batch.completion, exchanged=True)
