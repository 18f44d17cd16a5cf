"""LMCache's drop decision, bit for bit.

Source: ``lmcache/v1/distributed/l2_adapters/fault_inject_l2_adapter.py`` of LMCache 0.5.6
(``_should_drop_key`` and ``_drop_positions``).
"""

from __future__ import annotations

from binascii import hexlify
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from hashlib import blake2b

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.config.schema import FaultInject
from kvchaos_sidecar.faults.drop import Drop
from kvchaos_sidecar.rules.verdict import Call, Hit, Operation

RULE_NAME = "fault_inject"
BUCKETS = 1_000_000


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
        self._seed = settings.seed
        self._gap_indices = sorted(set(settings.gap_indices))
        self._gap_tail_ratios = settings.gap_tail_ratios
        self._drop = Drop(settings.poison)

    @property
    def operations(self) -> frozenset[Operation]:
        """Load when any position can be dropped; otherwise none."""
        can_fire = self._threshold > 0 or self._gap_indices or self._gap_tail_ratios
        return frozenset({Operation.LOAD}) if can_fire else frozenset()

    def evaluate(self, call: Call) -> Sequence[Hit]:
        """The dropped positions, ascending, each with its first reason."""
        reasons: dict[int, Reason] = {}
        for reason, positions in self._positions_by_reason(call.keys):
            for position in positions:
                reasons.setdefault(position, reason)
        return [Hit(position, RULE_NAME, reasons[position], self._drop) for position in sorted(reasons)]

    def explain(self, call: Call) -> Sequence[Hit]:
        """The dropped positions, ascending, with every reason and its numbers."""
        hits = [
            Hit(position, RULE_NAME, reason, self._drop, self._detail(reason, position, call.keys))
            for reason, positions in self._positions_by_reason(call.keys)
            for position in positions
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
        threshold, bucket = self._threshold, bucket_function(self._seed)
        return [position for position, key in enumerate(keys) if bucket(key) < threshold]

    def _detail(self, reason: Reason, position: int, keys: Sequence[ObjectKey]) -> str:
        if reason is Reason.RATE:
            return f"bucket {bucket_function(self._seed)(keys[position])} < {self._threshold}"
        if reason is Reason.INDEX:
            return f"{position} is in gap_indices"
        ratios = [ratio for ratio in self._gap_tail_ratios if tail_position(ratio, len(keys)) == position]
        return ", ".join(f"round((1 - {ratio:g}) * {len(keys) - 1}) = {position}" for ratio in ratios)


def tail_position(ratio: float, batch_size: int) -> int:
    """The position at ``ratio`` of the way from the tail to the head: 0 the last, 1 the first."""
    return round((1.0 - ratio) * (batch_size - 1))


def bucket_function(seed: int) -> Callable[[ObjectKey], int]:
    """A function from a key to its bucket in [0, 1,000,000), by the seeded hash of its identity.

    It remembers what keys share: the hash state after the seed, and the encoded tail of the identity.
    """
    seeded = blake2b(b"%d:" % seed, digest_size=8)
    tails: dict[tuple[str, int, int, str], bytes] = {}

    def bucket(key: ObjectKey) -> int:
        shared = key[1:]
        tail = tails.get(shared)
        if tail is None:
            model_name, kv_rank, object_group_id, cache_salt = shared
            tail = tails[shared] = f":{model_name}:{kv_rank}:{object_group_id}:{cache_salt}".encode()
        state = seeded.copy()
        state.update(hexlify(key[0]) + tail)
        return int.from_bytes(state.digest(), "big") % BUCKETS

    return bucket
