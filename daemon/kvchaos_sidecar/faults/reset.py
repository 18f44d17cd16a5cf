"""Reset: the connection is lost in the middle of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos_sidecar.errors import InjectedFailure
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Reset(Fault):
    """Ends the client's session and fails the call. Locks and grants are released; it may connect again."""

    kind = "reset"
    operations = frozenset(Operation) - {Operation.CONNECT}

    async def before(self, selected: Selected, batch: Batch) -> None:
        batch.end_session()
        raise InjectedFailure("the connection was reset on purpose by a fault rule")
