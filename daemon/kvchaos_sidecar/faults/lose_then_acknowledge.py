"""Lose then acknowledge: a store is reported as done, and nothing was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class LoseThenAcknowledge(Fault):
    """Takes the bytes of an object, throws them away and reports success."""

    kind = "lose_then_acknowledge"
    operations = frozenset({Operation.STORE})

    async def before_publish(self, selected: Selected, batch: Batch) -> None:
        for position in batch.granted(selected.positions):
            batch.withhold(position)
