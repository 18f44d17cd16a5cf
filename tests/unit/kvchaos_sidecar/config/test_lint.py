from typing import Any

import pytest

from kvchaos_sidecar.config.lint import warnings_of
from kvchaos_sidecar.config.rule import Rule


def warnings(
    fault: str = "drop", op: str = "load", select: dict[str, Any] | None = None, **match: Any
) -> list[str]:
    parts = {"name": "a", "match": {"op": op, **match}, "fault": fault, "select": select or {}}
    return warnings_of([Rule.model_validate(parts)])


@pytest.mark.parametrize(
    ("parts", "warning"),
    [
        ({"op": "usage", "fault": "refuse", "model": "*"}, "rules[0].match.op: usage has no keys"),
        (
            {"op": "lookup", "fault": "hide", "object_size": 5},
            "rules[0].match.object_size: lookup carries no sizes",
        ),
        ({"model": "a@b"}, "rules[0].match.model: 'a@b' never matches"),
        ({"cache_salt": "a/b"}, "rules[0].match.cache_salt: 'a/b' never matches"),
        ({"position": 8, "batch_size": {"max": 8}}, "rules[0].match.position: 8 is beyond every batch"),
        ({"batch_size": 0}, "rules[0].match.batch_size: a batch of 0 keys"),
        ({"select": {"rate": 0}}, "rules[0].select.rate: 0 selects nothing"),
    ],
)
def test_a_rule_that_can_never_fire_is_warned_of(parts: dict[str, Any], warning: str) -> None:
    (line,) = warnings(**parts)
    assert line.startswith(warning)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"model": "*", "cache_salt": "", "position": 7, "batch_size": {"max": 8}, "object_size": 5},
        {"position": -1, "batch_size": 8},
        {"select": {"rate": 0, "gap_indices": [0]}},
    ],
)
def test_a_rule_that_may_fire_is_not(parts: dict[str, Any]) -> None:
    assert warnings(**parts) == []
