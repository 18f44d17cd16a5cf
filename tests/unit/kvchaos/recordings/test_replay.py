"""Recorded faults as rules."""

import json
from typing import Any

from kvchaos.recordings.reader import RecordedFault
from kvchaos.recordings.replay import replay_rules
from kvchaos_sidecar.config.rule_file import parse_rules


def fault(rule: str = "gap", **changed: Any) -> RecordedFault:
    values: dict[str, Any] = {
        "line": 2,
        "session": 1,
        "operation": "load",
        "batch": "0" * 24,
        "nth": 1,
        "place": 0,
        "rule": rule,
        "fault": '{"stale_positive": {"times": 3}}',
        "chance": 0.5,
        "key": "abc",
    }
    return RecordedFault(**{**values, **changed})


def test_the_faults_of_one_rule_become_one_rule_with_a_call_for_each_call() -> None:
    faults = [fault(place=2), fault(place=5, chance=0.25), fault(operation="lookup", nth=4)]
    (rule,) = replay_rules(faults, sessions_before=7)
    assert rule["name"] == "replay.gap"
    assert rule["match"] == {"op": ["load", "lookup"]}
    assert rule["fault"] == {"stale_positive": {"times": 3}}
    assert rule["select"]["recorded"] == [
        {"session": 8, "op": "load", "batch": "0" * 24, "nth": 1, "places": [2, 5], "chances": [0.5, 0.25]},
        {"session": 8, "op": "lookup", "batch": "0" * 24, "nth": 4, "places": [0], "chances": [0.5]},
    ]


def test_rules_keep_the_order_of_their_first_hits_and_get_names_of_their_own() -> None:
    other = '{"stale_positive": {"times": 9}}'
    names = ["b", "a", "b", "replay.a", "x" * 63, "x" * 63]
    settings = [None, None, other, other, None, other]
    faults = [
        fault(name, **({"fault": setting} if setting else {}))
        for name, setting in zip(names, settings, strict=True)
    ]
    made = [rule["name"] for rule in replay_rules(faults)]
    assert made[:4] == ["replay.b", "replay.a", "replay.b.2", "replay.a.2"]
    assert [len(name) for name in made[4:]] == [63, 63]
    assert len(set(made)) == 6


def test_the_sidecar_takes_them_as_rules() -> None:
    rules = parse_rules(
        json.dumps({"rules": replay_rules([fault(), fault("other", operation="lookup")])})
    ).rules
    assert [rule.select.recorded[0].op for rule in rules] == ["load", "lookup"]
