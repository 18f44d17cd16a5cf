"""Claim falsely: lookup says that a missing object is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos.results import Result
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class ClaimFalsely(Fault):
    """Reports a missing key as present. There is nothing to lock, and its load will find nothing."""

    kind = "claim_falsely"
    operations = frozenset({Operation.LOOKUP})

    async def after(self, selected: Selected, batch: Batch) -> None:
        for position in selected.positions:
            if batch.result(position) is Result.NOT_FOUND:
                batch.overrule(position, Result.OK)
