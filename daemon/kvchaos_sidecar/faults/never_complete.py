"""Never complete: the store takes a call and never answers."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class NeverComplete(Fault):
    """Keeps the call without asking the store, until the client gives up or injection is halted.

    After a halt the call goes on as if nothing had been. On every operation it is a half-open connection.
    """

    kind = "never_complete"
    operations = frozenset(Operation)

    async def before(self, selected: Selected, batch: Batch) -> None:
        await batch.hold(inf)
