"""One rule fires on some positions of one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from kvchaos_sidecar.faults.contract import Fault

_UNIT = float(2**64)


def _nothing(_: int) -> None:
    return


@dataclass(frozen=True, slots=True)
class Strike:
    """The positions that one rule hits, and with what."""

    rule: str
    fault: Fault
    positions: Sequence[int]
    """Ascending."""
    reasons: Sequence[str]
    """Why, for each position."""
    seed: int = 0
    ordinal: int = 0
    """How many keys the rule had hit before."""
    began: Callable[[int], None] = _nothing
    """Told how many positions are hit in the end, just before the fault acts."""
    ended: Callable[[], None] = lambda: None
    """Told when the fault has acted."""
    chances: Sequence[float] = ()
    """Draws that a recording holds, one for each position. Empty: drawn by rule, seed and ordinal."""

    def chance(self, index: int) -> float:
        """A number in [0, 1) for ``positions[index]``: the same for the same rule, seed and traffic."""
        if self.chances:
            return self.chances[index]
        text = f"{self.rule}:{self.seed}:chance:{self.ordinal + index}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") / _UNIT

    def limited(self, count: int) -> Strike:
        """The first ``count`` positions of it."""
        return replace(
            self,
            positions=self.positions[:count],
            reasons=self.reasons[:count],
            chances=self.chances[:count],
        )
