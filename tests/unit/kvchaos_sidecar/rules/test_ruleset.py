from collections.abc import Sequence

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.schema import FaultInject
from kvchaos_sidecar.faults.drop import Drop
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.rule import Evaluation, Identity
from kvchaos_sidecar.rules.ruleset import MAX_REMEMBERED, RuleSet, Slot
from kvchaos_sidecar.rules.strike import Strike
from kvchaos_sidecar.rules.verdict import Hit

KEYS = [ObjectKey(bytes([number]) * 32, "model", 0) for number in range(4)]


class HitsWhatConcernsIt:
    """Hits every position of one rank, and notes what it was asked."""

    operations = frozenset({Operation.LOAD, Operation.LOOKUP})

    def __init__(self, name: str, rank: int = 0) -> None:
        self.name = name
        self.rank = rank
        self.asked: list[Identity | None] = []

    def concerns(self, client_name: str, identity: Identity | None) -> bool:
        self.asked.append(identity)
        return identity is not None and identity[1] == self.rank

    def evaluate(self, call: Call, positions: Sequence[int]) -> Evaluation:
        strike = Strike(self.name, Drop(), list(positions), ["match"] * len(positions))
        return Evaluation(len(positions), strike)

    def explain(self, call: Call, positions: Sequence[int]) -> Sequence[Hit]:
        return [Hit(position, self.name, "match", Drop()) for position in positions]


def ruleset(
    fault_inject: FaultInject | None = None, *slots: Slot, clock: ManualClock | None = None
) -> RuleSet:
    return RuleSet(7, fault_inject or FaultInject(), slots, clock or ManualClock())


def hits(rules: RuleSet, keys: Sequence[ObjectKey] = KEYS) -> list[tuple[str, int]]:
    verdict = rules.judge(Call(Operation.LOAD, keys))
    return [(hit.rule, hit.position) for hit in verdict.hits] if verdict else []


def test_without_an_armed_rule_nobody_judges() -> None:
    assert ruleset().judge(Call(Operation.LOAD, KEYS)) is None


def test_only_rules_for_the_operation_judge() -> None:
    rules = ruleset(FaultInject(rate=1.0))
    for operation in set(Operation) - {Operation.LOAD}:
        assert rules.judge(Call(operation, KEYS)) is None
    assert rules.judge(Call(Operation.LOAD, KEYS)) is not None


def test_a_batch_whose_keys_no_rule_looks_at_is_not_judged() -> None:
    rules = ruleset(None, Slot(HitsWhatConcernsIt("odd", 1)))
    assert rules.judge(Call(Operation.LOAD, [key._replace(kv_rank=0) for key in KEYS])) is None
    assert rules.judge(Call(Operation.LOAD, [key._replace(kv_rank=1) for key in KEYS])) is not None


def test_a_verdict_counts_the_keys_that_were_looked_at_although_none_is_hit() -> None:
    verdict = ruleset(FaultInject(gap_indices=[99])).judge(Call(Operation.LOAD, KEYS))
    assert verdict is not None
    assert (verdict.generation, dict(verdict.evaluated), verdict.hits) == (7, {"fault_inject": 4}, [])


def test_fault_inject_comes_first_and_then_the_rules_in_their_order() -> None:
    slots = [Slot(HitsWhatConcernsIt(name)) for name in ("b", "a")]
    found = hits(ruleset(FaultInject(gap_indices=[3, 0]), *slots))
    assert found[:2] == [("fault_inject", 0), ("fault_inject", 3)]
    assert found[2:] == [(name, position) for name in ("b", "a") for position in range(4)]


def test_a_mixed_batch_is_split_by_what_its_keys_share_and_keeps_rules_and_positions_in_order() -> None:
    keys = [key._replace(kv_rank=position % 2) for position, key in enumerate(KEYS)]
    rules = ruleset(None, Slot(HitsWhatConcernsIt("odd", 1)), Slot(HitsWhatConcernsIt("even", 0)))
    assert hits(rules, keys) == [("odd", 1), ("odd", 3), ("even", 0), ("even", 2)]


def test_a_rule_is_asked_once_about_what_the_keys_of_all_batches_share() -> None:
    rule = HitsWhatConcernsIt("rule")
    rules = ruleset(None, Slot(rule))
    for _ in range(3):
        hits(rules)
    assert rule.asked == [("model", 0, 0, "")]


def test_what_is_remembered_is_bounded() -> None:
    rules = ruleset(None, Slot(HitsWhatConcernsIt("rule")))
    for number in range(MAX_REMEMBERED + 10):
        hits(rules, [KEYS[0]._replace(cache_salt=str(number))])
    assert len(rules._concerned) <= MAX_REMEMBERED


def test_a_slot_counts_from_its_beginning_to_its_end() -> None:
    clock = ManualClock()
    rules = ruleset(None, Slot(HitsWhatConcernsIt("rule"), begins=1.0, ends=2.0), clock=clock)
    seen = []
    for _ in range(3):
        seen.append(bool(hits(rules)))
        clock.advance(1.0)
    assert seen == [False, True, False]
