"""The rules in force, as one set with a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import inf

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.config.schema import FaultInject
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.fault_inject import FaultInjectRule
from kvchaos_sidecar.rules.rule import Identity, Rule
from kvchaos_sidecar.rules.strike import Strike
from kvchaos_sidecar.rules.verdict import Hit, Verdict

MAX_REMEMBERED = 4096
"""Kinds of keys for which it is remembered which rules look at them."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A further rule in its place, and when it counts."""

    rule: Rule
    begins: float = -inf
    """Reading of the clock from which on it counts."""
    ends: float = inf
    """Reading of the clock from which on it does not count any more."""


class RuleSet:
    """Judges batches. Which rules it holds never changes; a change is another set with a higher generation.

    ``fault_inject`` comes first, then the further rules in their order. Each looks at the batch as the client
    sent it. Which rules look at the keys of one prompt is asked once and remembered, so that rules that do
    not match cost nothing for each key.
    """

    def __init__(
        self, generation: int, fault_inject: FaultInject, slots: Sequence[Slot], clock: Clock
    ) -> None:
        self.generation = generation
        self.fault_inject = fault_inject
        self.gap_indices = tuple(sorted(set(fault_inject.gap_indices)))
        self.slots = tuple(slots)
        self._clock = clock
        ordered = (Slot(FaultInjectRule(fault_inject)), *self.slots)
        self._by_operation = {
            operation: armed
            for operation in Operation
            if (armed := tuple(slot for slot in ordered if operation in slot.rule.operations))
        }
        self._concerned: dict[tuple[Operation, str, Identity | None], tuple[int, ...]] = {}

    def judge(self, call: Call) -> Verdict | None:
        """What the rules do to a batch; None when no rule looks at such calls or at such keys."""
        if call.operation not in self._by_operation:
            return None
        placed = self._positions_by_slot(call)
        if not placed:
            return None
        evaluated: dict[str, int] = {}
        strikes: list[Strike] = []
        for rule, positions in self._in_force(call, placed):
            found = rule.evaluate(call, positions)
            if found.evaluated:
                evaluated[rule.name] = found.evaluated
            if found.strike is not None:
                strikes.append(found.strike)
        return Verdict(self.generation, evaluated, strikes)

    def explain(self, call: Call) -> Sequence[Hit]:
        """Every reason of every rule for every position hit, ordered by rule, then position."""
        if call.operation not in self._by_operation:
            return []
        placed = self._positions_by_slot(call)
        return [
            hit for rule, positions in self._in_force(call, placed) for hit in rule.explain(call, positions)
        ]

    def _in_force(
        self, call: Call, placed: Sequence[tuple[int, Sequence[int]]]
    ) -> Iterator[tuple[Rule, Sequence[int]]]:
        """The rules that count now, in order, each with the positions it may look at."""
        slots = self._by_operation[call.operation]
        now = self._clock.monotonic() if self.slots else 0.0
        for number, positions in placed:
            slot = slots[number]
            if slot.begins <= now < slot.ends:
                yield slot.rule, positions

    def _positions_by_slot(self, call: Call) -> Sequence[tuple[int, Sequence[int]]]:
        """Of the slots of the call's operation that look at such keys, numbers and positions, in order."""
        groups = _by_identity(call.keys)
        if len(groups) <= 1:
            identity = next(iter(groups), None)
            return list(zip(self._concerned_slots(call, identity), repeat(call.positions), strict=False))
        found: dict[int, list[int]] = {}
        for identity, positions in groups.items():
            for number in self._concerned_slots(call, identity):
                found.setdefault(number, []).extend(positions)
        return [(number, sorted(found[number])) for number in sorted(found)]

    def _concerned_slots(self, call: Call, identity: Identity | None) -> tuple[int, ...]:
        kind = (call.operation, call.client_name, identity)
        numbers = self._concerned.get(kind)
        if numbers is None:
            if len(self._concerned) >= MAX_REMEMBERED:
                self._concerned = {}
            slots = self._by_operation[call.operation]
            numbers = self._concerned[kind] = tuple(
                number for number, slot in enumerate(slots) if slot.rule.concerns(call.client_name, identity)
            )
        return numbers


def _by_identity(keys: Sequence[ObjectKey]) -> dict[Identity, Sequence[int]]:
    """The positions of the keys that share all but the hash; one range when all do, which is usual."""
    if keys and _share_identity(keys):
        return {keys[0][1:]: range(len(keys))}
    groups: dict[Identity, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key[1:], []).append(position)
    return dict(groups)


def _share_identity(keys: Sequence[ObjectKey]) -> bool:
    _, *columns = zip(*keys, strict=True)
    return all(column.count(column[0]) == len(column) for column in columns)
