"""Flip bits: some bytes of an object are wrong; existence and length are right."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from kvchaos_sidecar.config.bounds import Between
from kvchaos_sidecar.config.fields import Count, PositiveCount
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class FlipBits(Fault):
    """Serves an object some of whose bits are inverted. Only a checksum of the content can tell."""

    kind = "flip_bits"
    operations = frozenset({Operation.LOAD})

    offset: Count | None = None
    """First byte that is changed, counted round the end of the object. Left out: drawn for each hit."""
    count: PositiveCount = 1
    """How many bytes are changed, one after the other."""
    mask: Annotated[int, Between(1, 255)] = 1
    """Which bits of each are inverted."""

    async def after(self, selected: Selected, batch: Batch) -> None:
        granted = set(batch.granted(selected.positions))
        for index, position in enumerate(selected.positions):
            if position in granted:
                drawn = int(selected.chance(index) * batch.size(position))
                await batch.alter(
                    position, partial(self._flipped, drawn if self.offset is None else self.offset)
                )

    def _flipped(self, offset: int, data: bytes) -> bytes:
        changed = bytearray(data)
        for place in range(offset, offset + min(self.count, len(data))):
            changed[place % len(data)] ^= self.mask
        return bytes(changed)
