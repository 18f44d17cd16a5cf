"""Rules of the document: which keys of which calls they hit, and when."""

from typing import Any

import pytest

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.rule import Rule
from kvchaos_sidecar.config.schema import FaultInject
from kvchaos_sidecar.faults.stale_positive import StalePositive
from kvchaos_sidecar.rules.call import KEYLESS, Call, Operation
from kvchaos_sidecar.rules.field_rule import FieldRule
from kvchaos_sidecar.rules.ruleset import RuleSet, Slot

KEYS = [ObjectKey(bytes([number]) * 32, "meta-llama/8b", 7, 1, "tenant-a") for number in range(8)]


class Bench:
    """One rule in a rule set, under a clock that stands still."""

    def __init__(self, op: object = "load", fault: object = "drop", name: str = "rule", **parts: Any) -> None:
        self.clock = ManualClock()
        match = {"op": op, **parts.pop("match", {})}
        settings = Rule.model_validate({"name": name, "match": match, "fault": fault, **parts})
        self.rule = FieldRule(settings, self.clock)
        self.rules = RuleSet(1, FaultInject(), [Slot(self.rule)], self.clock)

    def hits(self, *keys: ObjectKey, operation: str = "load", ends: bool = True, **call: Any) -> list[int]:
        batch = () if operation in KEYLESS else keys or KEYS
        verdict = self.rules.judge(Call(Operation(operation), batch, **call))
        found: list[int] = []
        for strike in verdict.strikes if verdict else ():
            strike.began(len(strike.positions))
            found += strike.positions
            if ends:
                strike.ended()
        return found


ALL = list(range(8))


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({}, ALL),
        ({"model": "meta-llama/*"}, ALL),
        ({"model": ["other", "meta-llama/?b"]}, ALL),
        ({"model": "llama"}, []),
        ({"cache_salt": "tenant-a"}, ALL),
        ({"cache_salt": ""}, []),
        ({"kv_rank": [0, 7]}, ALL),
        ({"kv_rank": 0}, []),
        ({"object_group_id": 1}, ALL),
        ({"object_group_id": 0}, []),
        ({"key_prefix": "0303"}, [3]),
        ({"key_prefix": ["03", "05"]}, [3, 5]),
        ({"client": "lmcache@*"}, ALL),
        ({"client": "other"}, []),
        ({"position": 2}, [2]),
        ({"position": -1}, [7]),
        ({"position": {"from": -2}}, [6, 7]),
        ({"position": [0, {"from": 3, "to": 4}, 99]}, [0, 3, 4]),
        ({"batch_size": 8}, ALL),
        ({"batch_size": {"max": 7}}, []),
        ({"object_size": {"min": 1000}}, [1]),
    ],
)
def test_a_match_takes_the_keys_for_which_everything_holds(
    match: dict[str, Any], expected: list[int]
) -> None:
    bench = Bench(match=match)
    sizes = [10, 1000, *[10] * 6]
    assert bench.hits(sizes=sizes, client_name="lmcache@host:1") == expected


def test_only_the_named_operations_are_hit() -> None:
    bench = Bench(op=["lookup", "store"], fault={"delay": {"fixed": "1s"}})
    assert bench.hits(operation="lookup") == ALL
    assert bench.hits(operation="store") == ALL
    assert bench.hits(operation="load") == []


@pytest.mark.parametrize("operation", ["usage", "connect"])
def test_a_call_without_keys_has_one_position(operation: str) -> None:
    assert Bench(op=operation, fault="refuse").hits(operation=operation) == [0]
    assert Bench(op=operation, fault="refuse", match={"model": "*"}).hits(operation=operation) == []


@pytest.mark.parametrize(
    ("select", "looks"),
    [
        ({}, True),
        ({"rate": 1e-6}, True),
        ({"rate": 0, "gap_indices": [0]}, True),
        ({"rate": 0, "gap_tail_ratios": [0]}, True),
        ({"rate": 0}, False),
        ({"rate": 9.99e-7}, False),
    ],
)
def test_a_rule_that_can_never_hit_anything_is_not_even_asked(select: dict[str, Any], looks: bool) -> None:
    bench = Bench(select=select)
    assert (bench.rules.judge(Call(Operation.LOAD, KEYS)) is not None) == looks
    assert bench.rule.evaluated_total == (len(KEYS) if looks else 0)


def test_a_rate_per_key_hits_the_same_keys_again_and_per_attempt_others() -> None:
    keys = [ObjectKey(number.to_bytes(4, "big"), "m", 0) for number in range(2000)]
    per_key = Bench(select={"rate": 0.25, "seed": 3})
    first = per_key.hits(*keys)
    assert 400 < len(first) < 600
    assert per_key.hits(*keys) == first
    assert Bench(select={"rate": 0.25, "seed": 3}).hits(*keys) == first
    per_attempt = Bench(select={"rate": 0.25, "seed": 3, "per": "attempt"})
    tries = [per_attempt.hits(*keys) for _ in range(2)]
    assert tries[0] != tries[1]
    assert all(400 < len(found) < 600 for found in tries)
    again = Bench(select={"rate": 0.25, "seed": 3, "per": "attempt"})
    assert [again.hits(*keys) for _ in range(2)] == tries


def test_a_key_that_stands_twice_in_a_batch_is_drawn_twice_per_attempt() -> None:
    bench = Bench(select={"rate": 0.25, "per": "attempt"})
    assert 400 < len(bench.hits(*KEYS[:1] * 2000)) < 600


def test_draws_of_different_rules_and_seeds_are_independent() -> None:
    keys = [ObjectKey(number.to_bytes(4, "big"), "m", 0) for number in range(4000)]
    half = [
        set(Bench(name=name, select={"rate": 0.5, "seed": seed}).hits(*keys))
        for name, seed in (("a", 0), ("b", 0), ("a", 1))
    ]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert 850 < len(half[one] & half[other]) < 1150


def test_gaps_and_rate_choose_together_and_only_among_what_matches() -> None:
    select = {"gap_indices": [1, 5], "gap_tail_ratios": [0.0]}
    assert Bench(select=select).hits() == [1, 5, 7]
    assert Bench(select=select, match={"position": {"from": 0, "to": 4}}).hits() == [1]


@pytest.mark.parametrize(
    ("select", "calls"),
    [
        ({"nth": 2}, [0, 1, 0, 0, 0, 0]),
        ({"every": 2}, [0, 1, 0, 1, 0, 1]),
        ({"first_n": 2}, [1, 1, 0, 0, 0, 0]),
        ({"after_n": 4}, [0, 0, 0, 0, 1, 1]),
        ({"after_n": 1, "first_n": 4, "every": 2}, [0, 0, 1, 0, 1, 0]),
    ],
)
def test_counting_takes_some_of_the_calls(select: dict[str, Any], calls: list[int]) -> None:
    bench = Bench(select=select)
    assert [int(bool(bench.hits())) for _ in calls] == calls


def test_counting_keys_goes_on_from_batch_to_batch() -> None:
    bench = Bench(select={"every": 3, "count": "keys"})
    assert [bench.hits(), bench.hits()] == [[2, 5], [0, 3, 6]]


def test_a_call_without_a_chosen_key_is_not_counted() -> None:
    bench = Bench(select={"nth": 1}, match={"position": 5})
    assert bench.hits(*KEYS[:3]) == []
    assert bench.hits() == [5]


def test_at_most_so_many_calls_are_struck_at_the_same_time() -> None:
    bench = Bench(select={"max_concurrent": 2})
    assert [bool(bench.hits(ends=False)) for _ in range(3)] == [True, True, False]
    bench.rule._ended()
    assert bench.hits() == ALL


def test_a_window_opens_and_closes_and_repeats() -> None:
    when = {"after": "2s", "for": "10s", "repeat": {"every": "4s", "for": "1s"}}
    bench = Bench(when=when)
    active = []
    for second in range(14):
        if bench.hits():
            active.append(second)
        bench.clock.advance(1)
    assert active == [2, 6, 10]
    assert bench.rule.state == "over"


def test_a_ramp_raises_the_rate_from_0_to_its_value() -> None:
    keys = [ObjectKey(number.to_bytes(4, "big"), "m", 0) for number in range(1000)]
    bench = Bench(select={"rate": 1.0}, when={"ramp": "10s"})
    counts = []
    for _ in range(3):
        counts.append(len(bench.hits(*keys)))
        bench.clock.advance(5)
    assert counts[0] == 0
    assert 420 < counts[1] < 580
    assert counts[2] == 1000


def test_it_ends_when_it_has_hit_so_many_keys() -> None:
    bench = Bench(when={"max_fired": 11})
    assert [bench.hits(), bench.hits(), bench.hits()] == [ALL, [0, 1, 2], []]
    assert (bench.rule.state, bench.rule.fired_total) == ("over", 11)


def test_explaining_says_what_would_happen_and_counts_nothing() -> None:
    bench = Bench(select={"rate": 1.0, "nth": 1})
    call = Call(Operation.LOAD, KEYS)
    for _ in range(2):
        found = bench.rules.explain(call)
        assert [hit.position for hit in found] == ALL
        assert found[0].reason == "rate"
        assert found[0].detail.endswith("< 1000000")
    assert bench.hits() == ALL
    assert bench.rules.explain(call) == []


def test_what_a_fault_remembers_belongs_to_one_armed_rule() -> None:
    settings = Bench(op="load", fault="stale_positive").rule.settings
    faults = [FieldRule(settings, ManualClock())._fault for _ in range(2)]
    assert isinstance(faults[0], StalePositive)
    faults[0]._failed[KEYS[0]] = 1
    assert faults[0] != faults[1]
    assert settings.fault.chosen == faults[1]


def test_the_fault_that_acts_is_not_the_one_in_the_settings() -> None:
    bench = Bench(op="load", fault="older_version")
    verdict = bench.rules.judge(Call(Operation.LOAD, KEYS))
    assert verdict is not None
    assert verdict.strikes[0].fault is not bench.rule.settings.fault.chosen
