"""Rules that strike where a recording says."""

from typing import Any

import pytest

from kvchaos.keys import ObjectKey
from kvchaos.recordings.batch import batch_id
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.rule import Rule
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.replay_rule import ReplayRule
from kvchaos_sidecar.rules.strike import Strike

KEYS = [ObjectKey(bytes([number]) * 8, "org/model", 1) for number in (5, 3, 9, 1)]
"""In ascending order these are the positions 3, 1, 0, 2."""


def recorded(**changed: Any) -> dict[str, Any]:
    return {
        "session": 2,
        "op": "load",
        "batch": batch_id(KEYS),
        "nth": 2,
        "places": [0, 2],
        "chances": [0.25, 0.75],
        **changed,
    }


def make_rule(*calls: dict[str, Any], op: Any = "load", fault: str = "drop", **parts: Any) -> ReplayRule:
    select = {"recorded": list(calls), **parts}
    settings = {"name": "replay.x", "match": {"op": op}, "select": select, "fault": fault}
    return ReplayRule(Rule.model_validate(settings), ManualClock())


def strike_of(
    rule: ReplayRule, keys: list[ObjectKey] = KEYS, session: int = 2, op: str = "load"
) -> Strike | None:
    call = Call(Operation(op), keys, session_number=session)
    return rule.evaluate(call, call.positions).strike


def test_it_strikes_the_nth_call_of_the_session_with_those_keys_and_repeats_the_draws() -> None:
    rule = make_rule(recorded())
    assert strike_of(rule, session=1) is None
    assert strike_of(rule) is None
    assert strike_of(rule, KEYS[:3]) is None
    assert rule.state == "armed"
    strike = strike_of(rule)
    assert strike is not None
    assert strike.positions == (0, 3)
    assert [strike.chance(0), strike.chance(1)] == [0.75, 0.25]
    assert rule.state == "over"
    assert strike_of(rule) is None


def test_the_keys_may_come_in_another_order() -> None:
    rule = make_rule(recorded(nth=1, places=[0], chances=[0.5]))
    strike = strike_of(rule, sorted(KEYS))
    assert strike is not None
    assert strike.positions == (0,)


def test_another_operation_with_the_same_keys_is_another_call() -> None:
    rule = make_rule(
        recorded(nth=1), recorded(nth=1, op="lookup"), op=["load", "lookup"], fault="stale_positive"
    )
    rule_strikes = [strike_of(rule, op="lookup"), strike_of(rule, op="lookup"), strike_of(rule)]
    assert [strike is not None for strike in rule_strikes] == [True, False, True]


def test_it_knows_which_calls_have_not_come() -> None:
    rule = make_rule(recorded(nth=1), recorded(nth=3))
    strike_of(rule)
    strike_of(rule)
    assert [call.nth for call in rule.awaited] == [3]


def test_a_call_without_keys_is_struck_at_its_only_position() -> None:
    settings = {
        "name": "replay.x",
        "match": {"op": "usage"},
        "select": {"recorded": [recorded(op="usage", batch=batch_id([]), nth=1, places=[0], chances=[0])]},
        "fault": {"misreport": {"bytes": 1}},
    }
    rule = ReplayRule(Rule.model_validate(settings), ManualClock())
    strike = strike_of(rule, [], op="usage")
    assert strike is not None
    assert strike.positions == (0,)


def test_places_that_the_batch_does_not_have_are_left_alone() -> None:
    strike = strike_of(make_rule(recorded(nth=1, places=[1, 99], chances=[0.5, 0.5])))
    assert strike is not None
    assert strike.positions == (1,)


def test_explain_tells_of_the_next_call_and_counts_nothing() -> None:
    rule = make_rule(recorded())
    call = Call(Operation.LOAD, KEYS, session_number=2)
    assert rule.explain(call, call.positions) == ()
    rule.evaluate(call, call.positions)
    for _ in range(2):
        assert [hit.position for hit in rule.explain(call, call.positions)] == [0, 3]


@pytest.mark.parametrize(
    ("calls", "parts", "message"),
    [
        ([recorded(chances=[0.5])], {}, "places has 2 entries and chances 1"),
        ([recorded()], {"rate": 0.5}, "leave out rate"),
        ([recorded(batch="xyz")], {}, "pattern"),
        ([recorded(places=[], chances=[])], {}, "at least 1"),
    ],
)
def test_a_recorded_selection_that_is_wrong_is_refused(calls: Any, parts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_rule(*calls, **parts)
