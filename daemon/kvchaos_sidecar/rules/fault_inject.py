"""LMCache's drop decision, bit for bit.

Source: ``lmcache/v1/distributed/l2_adapters/fault_inject_l2_adapter.py`` of LMCache 0.5.6
(``_should_drop_key`` and ``_drop_positions``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import StrEnum

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.config.schema import FaultInject
from kvchaos_sidecar.faults.drop import Drop
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.draw import BUCKETS, bucket_function
from kvchaos_sidecar.rules.rule import Evaluation, Identity
from kvchaos_sidecar.rules.strike import Strike
from kvchaos_sidecar.rules.verdict import Hit

RULE_NAME = "fault_inject"


class Reason(StrEnum):
    """Why a position is dropped, in the order in which reasons are tried.

    A position may have several; it is counted once, with the first. Explain lists all.
    """

    TAIL_RATIO = "tail_ratio"
    INDEX = "index"
    RATE = "rate"


class FaultInjectRule:
    """The ``fault_inject`` part of the configuration as a rule: drops at load, nothing else."""

    name = RULE_NAME

    def __init__(self, settings: FaultInject) -> None:
        self._threshold = int(settings.rate * BUCKETS)
        self._prefix = str(settings.seed)
        self._gap_indices = sorted(set(settings.gap_indices))
        self._gap_tail_ratios = settings.gap_tail_ratios
        self._drop = Drop(poison=settings.poison)

    @property
    def operations(self) -> frozenset[Operation]:
        """Load when any position can be dropped; otherwise none."""
        can_fire = self._threshold > 0 or self._gap_indices or self._gap_tail_ratios
        return frozenset({Operation.LOAD}) if can_fire else frozenset()

    def concerns(self, client_name: str, identity: Identity | None) -> bool:
        """It looks at every key."""
        return True

    def evaluate(self, call: Call, positions: Sequence[int]) -> Evaluation:
        """The dropped positions, each with its first reason. It looks at the whole batch."""
        reasons: dict[int, Reason] = {}
        for reason, found in self._positions_by_reason(call.keys):
            for position in found:
                reasons.setdefault(position, reason)
        hit = sorted(reasons)
        strike = Strike(RULE_NAME, self._drop, hit, [reasons[position] for position in hit]) if hit else None
        return Evaluation(len(call.keys), strike)

    def explain(self, call: Call, positions: Sequence[int]) -> Sequence[Hit]:
        """The dropped positions, ascending, with every reason and its numbers."""
        hits = [
            Hit(position, RULE_NAME, reason, self._drop, self._detail(reason, position, call.keys))
            for reason, found in self._positions_by_reason(call.keys)
            for position in found
        ]
        return sorted(hits, key=lambda hit: hit.position)

    def _positions_by_reason(self, keys: Sequence[ObjectKey]) -> Iterator[tuple[Reason, Sequence[int]]]:
        yield Reason.TAIL_RATIO, self._tail_positions(len(keys))
        yield Reason.INDEX, self._gap_indices[: bisect_left(self._gap_indices, len(keys))]
        yield Reason.RATE, self._rate_positions(keys) if self._threshold else ()

    def _tail_positions(self, batch_size: int) -> Sequence[int]:
        if batch_size == 0:
            return ()
        return sorted({tail_position(ratio, batch_size) for ratio in self._gap_tail_ratios})

    def _rate_positions(self, keys: Sequence[ObjectKey]) -> Sequence[int]:
        threshold, bucket = self._threshold, bucket_function(self._prefix)
        return [position for position, key in enumerate(keys) if bucket(key) < threshold]

    def _detail(self, reason: Reason, position: int, keys: Sequence[ObjectKey]) -> str:
        if reason is Reason.RATE:
            return f"bucket {bucket_function(self._prefix)(keys[position])} < {self._threshold}"
        if reason is Reason.INDEX:
            return f"{position} is in gap_indices"
        ratios = [ratio for ratio in self._gap_tail_ratios if tail_position(ratio, len(keys)) == position]
        return ", ".join(f"round((1 - {ratio:g}) * {len(keys) - 1}) = {position}" for ratio in ratios)


def tail_position(ratio: float, batch_size: int) -> int:
    """The position at ``ratio`` of the way from the tail to the head: 0 the last, 1 the first."""
    return round((1.0 - ratio) * (batch_size - 1))
