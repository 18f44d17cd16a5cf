"""Truncate: the object is shorter than the store says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos_sidecar.config.fields import Count
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Truncate(Fault):
    """Serves only the first bytes of an object, while its length is still given as the whole.

    The read is short, as that of a file that was torn. The bytes beyond are not touched.
    """

    kind = "truncate"
    operations = frozenset({Operation.LOAD})

    keep_bytes: Count
    """How many bytes are left."""
    announced: bool = False
    """Give the shorter length as the object's length, so that it is refused before it is read."""

    async def after(self, selected: Selected, batch: Batch) -> None:
        for position in batch.granted(selected.positions):
            claimed = None if self.announced else batch.size(position)
            await batch.alter(position, lambda data: data[: self.keep_bytes], claimed)
