"""Oversize: the object is longer than the buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos_sidecar.config.fields import PositiveCount
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Oversize(Fault):
    """Serves an object with further bytes behind its own.

    A client that trusts the store's length writes past its buffer.
    """

    kind = "oversize"
    operations = frozenset({Operation.LOAD})

    extra_bytes: PositiveCount = 1
    """How many bytes are added, each 0xEE."""

    async def after(self, selected: Selected, batch: Batch) -> None:
        for position in batch.granted(selected.positions):
            await batch.alter(position, lambda data: data + b"\xee" * self.extra_bytes)
