"""Lose: an unlock or a delete is acknowledged and not done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos.results import Result
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Lose(Fault):
    """Acknowledges an unlock or a delete without doing it.

    The lock stays until it expires, the object for good.
    """

    kind = "lose"
    operations = frozenset({Operation.UNLOCK, Operation.DELETE})

    async def before(self, selected: Selected, batch: Batch) -> None:
        for position in selected.positions:
            batch.settle(position, Result.OK)
