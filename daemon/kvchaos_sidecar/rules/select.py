"""Which of the matched keys a rule hits."""

from __future__ import annotations

from collections.abc import Sequence

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.config.rule import Select
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.draw import BUCKETS, bucket_function
from kvchaos_sidecar.rules.fault_inject import tail_position

Chosen = Sequence[tuple[int, str]]
"""Positions, ascending, each with the first reason for which it is chosen."""

_NO_KEY = ObjectKey(b"-", "", 0)


class Chooser:
    """The part of a :class:`Select` that looks at keys and positions.

    Draws depend on the rule's name and the seed, so that those of different rules are independent.
    """

    def __init__(self, name: str, select: Select) -> None:
        self._rate = select.rate
        self._per_attempt = select.per == "attempt"
        self._prefix = f"{name}:{select.seed}"
        self._bucket = bucket_function(self._prefix)
        self._gap_indices = frozenset(select.gap_indices)
        self._gap_tail_ratios = select.gap_tail_ratios
        self._takes_all = select.rate is None and not select.gap_indices and not select.gap_tail_ratios

    @property
    def chooses(self) -> bool:
        """Whether it can choose anything, ever. Not at rate 0 without places."""
        return bool(self._takes_all or self._threshold(1.0) or self._gap_indices or self._gap_tail_ratios)

    def choose(self, call: Call, positions: Sequence[int], ramp: float, attempt: int) -> Chosen:
        """The chosen ones of ``positions``. ``attempt``: how many keys the rule has looked at before."""
        if self._takes_all:
            return [(position, "match") for position in positions]
        reasons = dict.fromkeys(self._by_place(call, positions, self._tails(call)), "tail_ratio")
        for position in self._by_place(call, positions, self._gap_indices):
            reasons.setdefault(position, "index")
        for position in self._by_rate(call, positions, ramp, attempt):
            reasons.setdefault(position, "rate")
        return sorted(reasons.items())

    def detail(self, call: Call, position: int, reason: str, ramp: float, attempt: int) -> str:
        """The numbers behind a choice, for a person."""
        if reason == "rate":
            return f"bucket {self._drawn(call, position, attempt)} < {self._threshold(ramp)}"
        if reason == "index":
            return f"{position} is in gap_indices"
        if reason == "tail_ratio":
            return f"{position} is at one of gap_tail_ratios {list(self._gap_tail_ratios)}"
        return "every key that matches"

    def _tails(self, call: Call) -> frozenset[int]:
        size = len(call.positions)
        return (
            frozenset(tail_position(ratio, size) for ratio in self._gap_tail_ratios) if size else frozenset()
        )

    def _by_place(self, call: Call, positions: Sequence[int], places: frozenset[int]) -> Sequence[int]:
        return [position for position in positions if position in places] if places else ()

    def _by_rate(self, call: Call, positions: Sequence[int], ramp: float, attempt: int) -> Sequence[int]:
        threshold = self._threshold(ramp)
        if not threshold:
            return ()
        if self._per_attempt or not call.keys:
            return [
                position
                for index, position in enumerate(positions)
                if self._drawn(call, position, attempt + index) < threshold
            ]
        bucket, keys = self._bucket, call.keys
        return [position for position in positions if bucket(keys[position]) < threshold]

    def _threshold(self, ramp: float) -> int:
        return int((self._rate or 0.0) * ramp * BUCKETS)

    def _drawn(self, call: Call, position: int, attempt: int) -> int:
        key = call.keys[position] if call.keys else _NO_KEY
        if self._per_attempt or not call.keys:
            return bucket_function(f"{self._prefix}:{attempt}")(key)
        return self._bucket(key)


class Counter:
    """The part of a :class:`Select` that counts: the nth, every nth, the first n, after n."""

    def __init__(self, select: Select) -> None:
        self._select = select
        self._counts_keys = select.count == "keys"
        self._counts = any(
            value is not None for value in (select.nth, select.every, select.first_n, select.after_n)
        )
        self._seen = 0

    def take(self, chosen: Chosen) -> Chosen:
        """What is left of a call's choice; counts it."""
        taken = self.peek(chosen)
        if self._counts and chosen:
            self._seen += len(chosen) if self._counts_keys else 1
        return taken

    def peek(self, chosen: Chosen) -> Chosen:
        """What would be left of it; counts nothing."""
        if not self._counts:
            return chosen
        if self._counts_keys:
            return [found for index, found in enumerate(chosen, self._seen + 1) if self._is_due(index)]
        return chosen if self._is_due(self._seen + 1) else ()

    def _is_due(self, number: int) -> bool:
        select = self._select
        if select.nth is not None:
            return number == select.nth
        past = number - (select.after_n or 0)
        in_range = past > 0 and (select.first_n is None or past <= select.first_n)
        return in_range and (select.every is None or past % select.every == 0)
