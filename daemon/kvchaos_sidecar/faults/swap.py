"""Swap: two keys get the data of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Swap(Fault):
    """Exchanges the bytes of the selected keys of a batch, two by two. An odd last one stays as it is."""

    kind = "swap"
    operations = frozenset({Operation.LOAD})

    async def after(self, selected: Selected, batch: Batch) -> None:
        granted = batch.granted(selected.positions)
        for first, second in zip(granted[::2], granted[1::2], strict=False):
            batch.exchange(first, second)
