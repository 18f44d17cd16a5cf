"""Bandwidth: the bytes of loads come no faster than a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import PrivateAttr

from kvchaos_sidecar.config.fields import PositiveCount
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


_CATCH_UP_S = 0.1
"""How far a queue of transfers may lag behind and still catch up; a longer pause is not made good."""


class Bandwidth(Fault):
    """Lets the selected objects of all loads together come no faster than a limit.

    The answer is held until the bytes would have come; the client then moves them as fast as it can.
    """

    kind = "bandwidth"
    operations = frozenset({Operation.LOAD})

    bytes_per_second: PositiveCount
    """The limit."""

    _free_at: float = PrivateAttr(default=0.0)

    async def after(self, selected: Selected, batch: Batch) -> None:
        size = sum(map(batch.size, batch.granted(selected.positions)))
        now = batch.now()
        begins = self._free_at if self._free_at > now - _CATCH_UP_S else now
        self._free_at = begins + size / self.bytes_per_second
        await batch.hold(self._free_at - now)
