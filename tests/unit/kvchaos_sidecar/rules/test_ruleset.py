from collections.abc import Sequence

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.config.schema import FaultInject
from kvchaos_sidecar.faults.drop import Drop
from kvchaos_sidecar.rules.ruleset import RuleSet
from kvchaos_sidecar.rules.verdict import Call, Hit, Operation

KEYS = [ObjectKey(bytes([number]) * 32, "model", 0) for number in range(4)]


class HitsTheFirstKey:
    """A further rule, as later kinds will be."""

    name = "first"
    operations = frozenset({Operation.LOAD, Operation.LOOKUP})

    def evaluate(self, call: Call) -> Sequence[Hit]:
        return [Hit(0, self.name, "index", Drop())]

    def explain(self, call: Call) -> Sequence[Hit]:
        return self.evaluate(call)


def test_without_an_armed_rule_nobody_judges() -> None:
    assert RuleSet(1, FaultInject()).judge(Call(Operation.LOAD, KEYS)) is None


def test_only_rules_for_the_operation_judge() -> None:
    rules = RuleSet(1, FaultInject(rate=1.0))
    for operation in set(Operation) - {Operation.LOAD}:
        assert rules.judge(Call(operation, KEYS)) is None
    assert rules.judge(Call(Operation.LOAD, KEYS)) is not None


def test_a_verdict_counts_the_keys_that_were_looked_at_although_none_is_hit() -> None:
    verdict = RuleSet(7, FaultInject(gap_indices=[99])).judge(Call(Operation.LOAD, KEYS))
    assert verdict is not None
    assert (verdict.generation, dict(verdict.evaluated), verdict.hits) == (7, {"fault_inject": 4}, [])


def test_hits_are_ordered_by_rule_then_position() -> None:
    rules = RuleSet(1, FaultInject(gap_indices=[3, 0]), [HitsTheFirstKey()])
    verdict = rules.judge(Call(Operation.LOAD, KEYS))
    assert verdict is not None
    assert [(hit.rule, hit.position) for hit in verdict.hits] == [
        ("fault_inject", 0),
        ("fault_inject", 3),
        ("first", 0),
    ]
    assert verdict.evaluated == {"fault_inject": 4, "first": 4}
