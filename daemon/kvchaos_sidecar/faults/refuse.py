"""Refuse: a call, or the connection itself, is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvchaos_sidecar.errors import InjectedFailure
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Refuse(Fault):
    """Refuses the whole call as unavailable. On `connect` the client gets no session."""

    kind = "refuse"
    operations = frozenset(Operation)

    async def before(self, selected: Selected, batch: Batch) -> None:
        raise InjectedFailure("refused on purpose by a fault rule")
