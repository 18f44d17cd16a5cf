"""Restart: the store comes back with its objects and without its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos_sidecar.errors import InjectedFailure
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Restart(Fault):
    """Ends every session, locks and all, and forgets what usage has counted. The objects stay."""

    kind = "restart"
    operations = frozenset(Operation) - {Operation.CONNECT}

    async def before(self, selected: Selected, batch: Batch) -> None:
        await batch.lose_metadata()
        raise InjectedFailure("restarted on purpose by a fault rule")
