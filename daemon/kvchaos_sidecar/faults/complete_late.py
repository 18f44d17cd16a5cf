"""Complete late: the result of a load reaches the cache server after the adapter gave its word."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvchaos_sidecar.config.fields import DurationField
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class CompleteLate(Fault):
    """Keeps the finished result of a load back in the plugin, beyond the plugin's own deadline.

    The bytes are in the buffers long before. Halt hands out at once what is kept."""

    kind = "complete_late"
    operations = frozenset({Operation.LOAD})

    after_delay: DurationField
    """How long the result is kept back."""

    async def after(self, selected: Selected, batch: Batch) -> None:
        batch.completion = replace(batch.completion, late_s=self.after_delay.total_seconds())
