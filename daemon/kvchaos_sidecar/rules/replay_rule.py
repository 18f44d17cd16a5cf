"""A rule that strikes where a recording says: the same keys of the same calls, with the same draws."""

from __future__ import annotations

from collections.abc import Sequence

from kvchaos.recordings.batch import batch_id, canonical_order
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.config.rule import RecordedCall
from kvchaos_sidecar.config.rule import Rule as RuleSettings
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.field_rule import FieldRule
from kvchaos_sidecar.rules.rule import Evaluation
from kvchaos_sidecar.rules.strike import Strike
from kvchaos_sidecar.rules.verdict import Hit

REASON = "recorded"

_Batch = tuple[int, str, str]
"""Session number, operation and identity of the keys."""


class ReplayRule(FieldRule):
    """A rule with ``select.recorded``. It counts how often each recorded batch comes, and no others."""

    def __init__(self, settings: RuleSettings, clock: Clock) -> None:
        super().__init__(settings, clock)
        self._awaited = {
            (call.session, call.op.value, call.batch, call.nth): call for call in settings.select.recorded
        }
        self._seen: dict[_Batch, int] = dict.fromkeys((key[:3] for key in self._awaited), 0)

    @property
    def state(self) -> str:
        """ "armed" until every recorded call has come, then "over"."""
        return "armed" if self._awaited else "over"

    @property
    def awaited(self) -> Sequence[RecordedCall]:
        """The recorded calls that have not come, in the order of the recording."""
        return list(self._awaited.values())

    def evaluate(self, call: Call, positions: Sequence[int]) -> Evaluation:
        """What the recording says about this call, once. Counts it."""
        batch = _batch(call)
        if batch not in self._seen:
            return Evaluation(0, None)
        self._seen[batch] += 1
        recorded = self._awaited.pop((*batch, self._seen[batch]), None)
        if recorded is None:
            return Evaluation(0, None)
        self.evaluated_total += len(recorded.places)
        return Evaluation(len(recorded.places), self._recorded_strike(call, recorded))

    def explain(self, call: Call, positions: Sequence[int]) -> Sequence[Hit]:
        """What it would do if this call came now. Counts nothing."""
        batch = _batch(call)
        nth = self._seen.get(batch, 0) + 1
        recorded = self._awaited.get((*batch, nth))
        if recorded is None:
            return ()
        detail = f"recorded for call {nth} of these keys in session {call.session_number}"
        return [
            Hit(position, self.name, REASON, self._fault, detail)
            for position in sorted(_positions(call, recorded))
        ]

    def _recorded_strike(self, call: Call, recorded: RecordedCall) -> Strike:
        hits = sorted(zip(_positions(call, recorded), recorded.chances, strict=False))
        positions, chances = zip(*hits, strict=True)
        return Strike(
            self.name,
            self._fault,
            positions,
            [REASON] * len(positions),
            chances=chances,
            began=self._began,
            ended=self._ended,
        )


def _batch(call: Call) -> _Batch:
    return call.session_number, call.operation.value, batch_id(call.keys)


def _positions(call: Call, recorded: RecordedCall) -> Sequence[int]:
    order = canonical_order(call.keys) if call.keys else call.positions
    return [order[place] for place in recorded.places if place < len(order)]
