"""What the governor does, as metrics and events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvchaos_sidecar.journal import Journal
from kvchaos_sidecar.metrics import Metrics
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.governor import FaultSnapshot, Governor


class Announcer:
    """Hears of what is capped, expired, halted and resumed, counts it and notes it in the journal."""

    def __init__(self, governor: Governor, metrics: Metrics, journal: Journal) -> None:
        self._metrics = metrics
        self._journal = journal
        self._halted = governor.snapshot().halted
        governor.on_capped(self._capped)
        governor.on_expired(self._expired)
        governor.subscribe(self._changed)

    def _capped(self, call: Call, spared: Mapping[str, int]) -> None:
        for rule, keys in spared.items():
            self._metrics.capped(rule, keys)
            self._journal.note("capped", rule=rule, call=call, count=keys)

    def _expired(self, names: Sequence[str]) -> None:
        self._metrics.expired(len(names))
        for name in names:
            self._journal.note("expired", rule=name)

    def _changed(self, snapshot: FaultSnapshot) -> None:
        if snapshot.halted == self._halted:
            return
        self._halted = snapshot.halted
        if snapshot.halted:
            self._metrics.halted()
        self._journal.note("halted" if snapshot.halted else "resumed")
