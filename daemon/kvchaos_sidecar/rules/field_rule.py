"""A rule of the document, armed: it matches, selects, counts and says what is struck."""

from __future__ import annotations

from collections.abc import Sequence

from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.config.rule import RecordedCall
from kvchaos_sidecar.config.rule import Rule as RuleSettings
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.match import Matcher
from kvchaos_sidecar.rules.rule import Evaluation, Identity
from kvchaos_sidecar.rules.select import Chooser, Chosen, Counter
from kvchaos_sidecar.rules.strike import Strike
from kvchaos_sidecar.rules.verdict import Hit
from kvchaos_sidecar.rules.window import Window


class FieldRule:
    """One armed rule, with what it has counted since.

    Attributes:
        settings: as in the document. They stay as they are; the fault that acts is a copy.
        operations: what it looks at; nothing when it can never hit anything (rate 0).
        evaluated_total: positions that it looked at.
        fired_total: positions that it hit.
    """

    def __init__(self, settings: RuleSettings, clock: Clock) -> None:
        """Arms the rule now: its times begin."""
        self.settings = settings
        self.name = settings.name
        self.evaluated_total = 0
        self.fired_total = 0
        self._fault = settings.fault.chosen.model_copy(deep=True)
        self._clock = clock
        self._armed_at = clock.monotonic()
        self._match = Matcher(settings.match)
        self._window = Window(settings.when)
        self._chooser = Chooser(settings.name, settings.select)
        self.operations = frozenset(settings.match.op) if self._chooser.chooses else frozenset()
        self._counter = Counter(settings.select)
        self._active = 0

    @property
    def state(self) -> str:
        """ "armed", "waiting" (between its times) or "over" (never active again)."""
        elapsed = self._clock.monotonic() - self._armed_at
        if self._window.is_over(elapsed) or self._room() == 0:
            return "over"
        return "armed" if self._window.is_open(elapsed) else "waiting"

    @property
    def awaited(self) -> Sequence[RecordedCall]:
        """Calls of a recording that have not come; of no recording, none."""
        return ()

    def concerns(self, client_name: str, identity: Identity | None) -> bool:
        """Whether it looks at such keys at all."""
        return self._match.concerns(client_name, identity)

    def evaluate(self, call: Call, positions: Sequence[int]) -> Evaluation:
        """What it does to those of ``positions`` that it selects. Counts."""
        elapsed = self._clock.monotonic() - self._armed_at
        if not self._window.is_open(elapsed) or self._room() == 0:
            return Evaluation(0, None)
        matched = self._match.positions(call, positions)
        chosen = self._chooser.choose(call, matched, self._window.ramp(elapsed), self.evaluated_total)
        self.evaluated_total += len(matched)
        taken = self._within_bounds(self._counter.take(chosen))
        return Evaluation(len(matched), self._strike(taken) if taken else None)

    def explain(self, call: Call, positions: Sequence[int]) -> Sequence[Hit]:
        """What it would do now, with the numbers behind it. Counts nothing."""
        elapsed = self._clock.monotonic() - self._armed_at
        if not self._window.is_open(elapsed):
            return ()
        ramp, attempt = self._window.ramp(elapsed), self.evaluated_total
        matched = self._match.positions(call, positions)
        chosen = self._chooser.choose(call, matched, ramp, attempt)
        attempts = {position: attempt + index for index, position in enumerate(matched)}
        return [
            Hit(
                position,
                self.name,
                reason,
                self._fault,
                self._chooser.detail(call, position, reason, ramp, attempts[position]),
            )
            for position, reason in self._within_bounds(self._counter.peek(chosen))
        ]

    def _within_bounds(self, taken: Chosen) -> Chosen:
        concurrent = self.settings.select.max_concurrent
        if concurrent is not None and self._active >= concurrent:
            return ()
        room = self._room()
        return taken if room is None else taken[:room]

    def _room(self) -> int | None:
        """How many keys it may still hit; None for any number."""
        limit = self.settings.when.max_fired
        return None if limit is None else max(0, limit - self.fired_total)

    def _strike(self, taken: Chosen) -> Strike:
        positions, reasons = zip(*taken, strict=True)
        seed = self.settings.select.seed
        return Strike(
            self.name, self._fault, positions, reasons, seed, self.fired_total, self._began, self._ended
        )

    def _began(self, hits: int) -> None:
        self.fired_total += hits
        self._active += 1

    def _ended(self) -> None:
        self._active -= 1
