"""The rules in force, as one immutable set with a number."""

from __future__ import annotations

from collections.abc import Sequence

from kvchaos_sidecar.config.schema import FaultInject
from kvchaos_sidecar.rules.fault_inject import FaultInjectRule
from kvchaos_sidecar.rules.rule import Rule
from kvchaos_sidecar.rules.verdict import Call, Hit, Operation, Verdict


class RuleSet:
    """Judges batches. Never changes; a change of rules is another rule set with a higher generation."""

    def __init__(self, generation: int, fault_inject: FaultInject, rules: Sequence[Rule] = ()) -> None:
        """``rules`` are the further rules, evaluated after ``fault_inject`` in the given order."""
        self.generation = generation
        self.fault_inject = fault_inject
        self.gap_indices = tuple(sorted(set(fault_inject.gap_indices)))
        self.rules = tuple(rules)
        ordered: tuple[Rule, ...] = (FaultInjectRule(fault_inject), *self.rules)
        self._by_operation = {
            operation: armed
            for operation in Operation
            if (armed := tuple(rule for rule in ordered if operation in rule.operations))
        }

    def judge(self, call: Call) -> Verdict | None:
        """What the rules do to a batch; None when no rule looks at such calls. O(1) then."""
        rules = self._by_operation.get(call.operation)
        if rules is None:
            return None
        hits: list[Hit] = []
        for rule in rules:
            hits += rule.evaluate(call)
        return Verdict(self.generation, {rule.name: len(call.keys) for rule in rules}, hits)

    def explain(self, call: Call) -> Sequence[Hit]:
        """Every reason of every rule for every position hit, ordered by rule, then position."""
        return [hit for rule in self._by_operation.get(call.operation, ()) for hit in rule.explain(call)]
