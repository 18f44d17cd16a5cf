from datetime import timedelta

import pytest

from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.load import validate
from kvchaos_sidecar.config.rule_file import parse_rules
from kvchaos_sidecar.rules.governor import FaultSnapshot, Governor
from kvchaos_sidecar.rules.past import Past

RULES = """
- {name: one, match: {op: load}, fault: drop}
- {name: two, match: {op: load}, fault: drop}
"""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def governor(clock: ManualClock) -> Governor:
    backend = {"type": "memory", "capacity_bytes": 1}
    return Governor(validate({"version": 1, "backend": backend, "environment": "lab"}), clock)


def test_only_the_last_change_can_be_taken_back(governor: Governor) -> None:
    past, states = Past(), [governor.state()]
    for rate in (0.25, 0.5):
        governor.set_faults(rate=rate)
        states.append(governor.state())
    first = past.note(states[0], states[1])
    second = past.note(states[1], states[2])
    assert past.before(first, states[2]) is None
    assert past.before(second, states[1]) is None
    assert past.before(second, states[2]) == states[1]
    assert past.before(0, states[2]) is None


def test_nothing_can_be_taken_back_before_there_was_a_change(governor: Governor) -> None:
    assert Past().before(0, governor.state()) is None


def test_rules_values_switches_and_the_halt_are_put_back(governor: Governor) -> None:
    governor.add_rules(parse_rules(RULES).rules)
    governor.switch_rule("two", False)
    governor.set_faults(rate=0.5)
    governor.halt("a reason")
    state, before = governor.state(), governor.snapshot()
    heard: list[FaultSnapshot] = []
    governor.reset()
    governor.resume()
    governor.subscribe(heard.append)

    assert governor.restore(state)

    after = governor.snapshot()
    assert (after.rate, after.rules, after.halted, after.halt_reason) == (
        before.rate,
        ("one",),
        True,
        "a reason",
    )
    assert [snapshot.halted for snapshot in heard] == [True]
    assert not governor.restore(state)


def test_subscribers_hear_of_a_halt_that_is_put_back(governor: Governor) -> None:
    state = governor.state()
    governor.halt()
    heard: list[FaultSnapshot] = []
    governor.subscribe(heard.append)
    governor.restore(state)
    assert [snapshot.halted for snapshot in heard] == [False]


def test_what_would_have_ended_meanwhile_does_not_come_back(governor: Governor, clock: ManualClock) -> None:
    governor.set_faults(rate=0.5, time_to_live=timedelta(seconds=5))
    state = governor.state()
    governor.reset()
    clock.advance(6)
    governor.restore(state)
    assert governor.snapshot().rate == 0.0
    assert governor.runtime_values() == {}


def test_a_rule_whose_name_the_document_has_taken_is_left_out(governor: Governor) -> None:
    governor.add_rules(parse_rules(RULES).rules)
    state = governor.state()
    rule = {"name": "one", "match": {"op": "lookup"}, "fault": "hide"}
    document = {"version": 1, "backend": {"type": "memory", "capacity_bytes": 1}, "environment": "lab"}
    governor.apply_document(validate({**document, "rules": [rule]}))
    governor.restore(state)
    assert [(listed.rule.name, listed.source) for listed in governor.rules()] == [
        ("one", "file"),
        ("two", "runtime"),
    ]
