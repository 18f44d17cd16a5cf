"""Rules of the file and of the runtime, through the governor that holds them."""

import gc
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from kvchaos.errors import ConfigError
from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.load import validate
from kvchaos_sidecar.config.rule import Rule
from kvchaos_sidecar.config.schema import Document
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.governor import Governor

CALL = Call(Operation.LOAD, [ObjectKey(bytes([number]) * 32, "model", 0) for number in range(4)])
FILE_RULE = {"name": "from-file", "match": {"op": "load", "position": 0}, "fault": "drop"}


def document(*rules: Mapping[str, Any], environment: str = "lab", **parts: Any) -> Document:
    backend = {"type": "memory", "capacity_bytes": 1}
    base = {"version": 1, "backend": backend, "environment": environment, "rules": list(rules)}
    return validate({**base, **parts})


def rule(name: str = "added", position: int = 1, **parts: Any) -> Rule:
    match = {"op": "load", "position": position}
    return Rule.model_validate({"name": name, "match": match, "fault": "drop", **parts})


def hit(governor: Governor) -> list[tuple[str, int]]:
    verdict = governor.judge(CALL)
    return [(found.rule, found.position) for found in verdict.hits] if verdict else []


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def governor(clock: ManualClock) -> Governor:
    return Governor(document(FILE_RULE), clock)


def test_added_rules_come_after_the_files_and_go_with_removal(governor: Governor) -> None:
    assert governor.add_rules([rule()])
    assert hit(governor) == [("from-file", 0), ("added", 1)]
    assert governor.snapshot().rules == ("from-file", "added")
    assert governor.remove_rule("added")
    assert hit(governor) == [("from-file", 0)]
    assert governor.snapshot().generation == 3


def test_a_time_to_live_ends_a_rule_without_anybody_calling_expire(
    governor: Governor, clock: ManualClock
) -> None:
    expired: list[str] = []
    governor.on_expired(expired.extend)
    governor.add_rules([rule()], timedelta(seconds=5))
    clock.advance(4.9)
    assert ("added", 1) in hit(governor)
    clock.advance(0.1)
    assert hit(governor) == [("from-file", 0)]
    assert governor.snapshot().rules == ("from-file",)
    assert governor.expire()
    assert expired == ["added"]
    assert not governor.expire()


def test_a_rule_is_disabled_and_enabled_for_a_time_or_until_reset(
    governor: Governor, clock: ManualClock
) -> None:
    governor.switch_rule("from-file", on=False, time_to_live=timedelta(seconds=5))
    assert hit(governor) == []
    assert [(found.rule.name, found.state) for found in governor.rules()] == [("from-file", "disabled")]
    clock.advance(5)
    assert hit(governor) == [("from-file", 0)]
    governor.switch_rule("from-file", on=False)
    assert hit(governor) == []
    assert governor.reset()
    assert hit(governor) == [("from-file", 0)]


def test_a_rule_that_is_disabled_in_the_file_can_be_enabled(clock: ManualClock) -> None:
    governor = Governor(document({**FILE_RULE, "enabled": False}), clock)
    assert hit(governor) == []
    governor.switch_rule("from-file", on=True, time_to_live=timedelta(seconds=5))
    assert hit(governor) == [("from-file", 0)]
    clock.advance(5)
    assert hit(governor) == []


def test_a_rule_that_stays_the_same_keeps_its_counts_across_changes_and_reloads(governor: Governor) -> None:
    governor.add_rules([rule(select={"first_n": 1})])
    assert ("added", 1) in hit(governor)
    governor.add_rules([rule("other", 2)])
    governor.apply_document(document({**FILE_RULE, "match": {"op": "load", "position": 3}}))
    assert hit(governor) == [("from-file", 3), ("other", 2)]


def test_the_same_document_again_changes_nothing(governor: Governor) -> None:
    assert not governor.apply_document(document(FILE_RULE))
    assert governor.snapshot().generation == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda governor: governor.add_rules([rule("from-file")]), "'from-file' is in force already"),
        (lambda governor: governor.remove_rule("from-file"), "from-file: comes from the file; disable it"),
        (lambda governor: governor.remove_rule("from-fil"), "there is no such rule; did you mean from-file?"),
        (lambda governor: governor.switch_rule("x", on=True), "x: there is no such rule"),
        (lambda governor: governor.add_rules([rule()], timedelta(0)), "time_to_live: 0s is not between"),
    ],
)
def test_a_change_that_cannot_be_made_says_why_and_changes_nothing(
    governor: Governor, change: Any, problem: str
) -> None:
    with pytest.raises(ConfigError, match="") as caught:
        change(governor)
    assert problem in str(caught.value)
    assert hit(governor) == [("from-file", 0)]
    assert governor.snapshot().generation == 1


@pytest.mark.parametrize("environment", ["", "production"])
def test_nothing_is_armed_where_it_may_not_be(clock: ManualClock, environment: str) -> None:
    governor = Governor(document(environment=environment), clock)
    with pytest.raises(ConfigError, match="environment: "):
        governor.add_rules([rule()])
    if environment:
        with pytest.raises(ConfigError, match="environment: "):
            governor.set_faults(rate=0.5)
    assert not governor.snapshot().armed


def test_the_cap_wins_over_every_rule_and_is_told(clock: ManualClock) -> None:
    everything = {"name": "all", "match": {"op": "load"}, "fault": "drop"}
    governor = Governor(document(everything, safety={"cap": {"share_of_keys": 0.5}}), clock)
    capped: list[Mapping[str, int]] = []
    governor.on_capped(lambda call, spared: capped.append(spared))
    assert len(hit(governor)) == 2
    assert capped == [{"all": 2}]


def test_adding_and_removing_ten_thousand_times_leaves_nothing(governor: Governor) -> None:
    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    before = 0
    for number in range(10_000):
        governor.add_rules([rule(f"rule-{number}")], timedelta(seconds=60))
        governor.remove_rule(f"rule-{number}")
        if number == 100:
            before = objects()
    assert objects() < before + 1000
    assert len(governor.rules()) == 1
    assert hit(governor) == [("from-file", 0)]
