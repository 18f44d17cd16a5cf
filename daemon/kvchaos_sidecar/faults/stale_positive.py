"""Stale positive: lookup goes on saying yes while the load finds nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import PrivateAttr

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.config.fields import PositiveCount
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


MAX_KEYS = 65536
"""Keys whose loads are counted; the ones counted first are forgotten."""


class StalePositive(Fault):
    """Reports a key as present at every lookup, and lets its first loads find nothing.

    A cache server that looks up again after each failed load never ends.
    """

    kind = "stale_positive"
    operations = frozenset({Operation.LOOKUP, Operation.LOAD})

    times: PositiveCount = 3
    """How many loads of a key find nothing; later ones ask the store."""

    _failed: dict[ObjectKey, int] = PrivateAttr(default_factory=dict)

    async def before(self, selected: Selected, batch: Batch) -> None:
        if batch.call.operation is not Operation.LOAD:
            return
        for position in selected.positions:
            key = batch.keys[position]
            failed = self._failed.get(key, 0)
            if failed < self.times:
                self._count(key, failed + 1)
                batch.settle(position, Result.NOT_FOUND)

    async def after(self, selected: Selected, batch: Batch) -> None:
        if batch.call.operation is Operation.LOOKUP:
            for position in selected.positions:
                if batch.result(position) is Result.NOT_FOUND:
                    batch.overrule(position, Result.OK)

    def _count(self, key: ObjectKey, failed: int) -> None:
        self._failed[key] = failed
        if len(self._failed) > MAX_KEYS:
            del self._failed[next(iter(self._failed))]
