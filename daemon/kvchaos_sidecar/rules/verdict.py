"""What a rule set says about one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvchaos_sidecar.faults.contract import Fault
from kvchaos_sidecar.rules.strike import Strike


@dataclass(frozen=True, slots=True)
class Hit:
    """One rule fires on one position."""

    position: int
    rule: str
    reason: str
    """What selected it: "rate", "index", "tail_ratio", "match", "nth" and so on."""
    fault: Fault
    detail: str = ""
    """The numbers behind it, for a person; filled only when a call is explained."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happens to one batch, by one generation of rules."""

    generation: int
    evaluated: Mapping[str, int]
    """Keys that each rule looked at."""
    strikes: Sequence[Strike]
    """What each rule that fires does, in the order in which the rules apply."""

    @property
    def hits(self) -> Sequence[Hit]:
        """Ordered by rule, then position."""
        return [
            Hit(position, strike.rule, reason, strike.fault)
            for strike in self.strikes
            for position, reason in zip(strike.positions, strike.reasons, strict=True)
        ]
