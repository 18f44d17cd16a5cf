"""Torn: only the first bytes of an object are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos.results import Result
from kvchaos_sidecar.config.fields import PositiveCount
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Torn(Fault):
    """Publishes the first bytes of an object under its key: lookup finds it, a load finds it too short."""

    kind = "torn"
    operations = frozenset({Operation.STORE})

    keep_bytes: PositiveCount
    """How many bytes are published."""
    acknowledge: bool = True
    """Report success; otherwise an I/O error."""

    async def before_publish(self, selected: Selected, batch: Batch) -> None:
        for position in batch.granted(selected.positions):
            batch.torn(position, min(self.keep_bytes, batch.size(position)))

    async def after_publish(self, selected: Selected, batch: Batch) -> None:
        if not self.acknowledge:
            for position in selected.positions:
                batch.overrule(position, Result.IO_ERROR)
