"""The rules part of a document: what it accepts, and what it says about bad input."""

from typing import Any

import pytest

from kvchaos.errors import ConfigError
from kvchaos_sidecar.config.load import validate
from kvchaos_sidecar.config.rule import Rule, Span
from kvchaos_sidecar.faults.registry import FAULTS, faults_of
from kvchaos_sidecar.rules.call import Operation

RULE: dict[str, Any] = {"name": "a", "match": {"op": "load"}, "fault": "drop"}


def rules_of(*rules: dict[str, Any], environment: str = "lab", **document: Any) -> tuple[Rule, ...]:
    backend = {"type": "memory", "capacity_bytes": 1}
    parts = {"version": 1, "backend": backend, "environment": environment, "rules": list(rules)}
    return validate({**parts, **document}).rules


def problem_of(*rules: dict[str, Any], **document: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        rules_of(*rules, **document)
    return str(caught.value)


def test_a_rule_is_read_with_its_short_forms() -> None:
    (rule,) = rules_of(
        {
            "name": "slow-tenant-a",
            "match": {
                "op": "load",
                "model": "meta/*",
                "kv_rank": 0,
                "position": [3, {"from": -4}],
                "batch_size": 8,
            },
            "select": {"rate": 0.05, "seed": 1},
            "fault": {"delay": {"fixed": "50ms"}},
            "when": {"after": "10s", "for": "2m", "repeat": {"every": "30s", "for": "5s"}},
        }
    )
    assert rule.match.op == (Operation.LOAD,)
    assert rule.match.model == ("meta/*",)
    assert [(span.first, span.last) for span in rule.match.position or ()] == [(3, 3), (-4, -1)]
    assert rule.match.batch_size == Span(min=8, max=8)
    assert rule.fault.chosen.kind == "delay"


def test_a_rule_is_written_as_it_can_be_read_again() -> None:
    (rule,) = rules_of({**RULE, "match": {"op": ["load"], "key_prefix": "a1b2"}, "when": {"for": "5s"}})
    written = rule.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert rules_of(written) == (rule,)


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_says_what_it_is_and_which_operations_it_strikes(kind: str) -> None:
    fault = FAULTS[kind]
    assert fault.kind == kind
    assert fault.operations
    assert (fault.__doc__ or "").strip()
    for name, field in fault.model_fields.items():
        assert field.description, f"{kind}.{name} has no docstring"


@pytest.mark.parametrize("operation", Operation)
def test_every_operation_can_be_struck(operation: Operation) -> None:
    assert faults_of(operation)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": None}, "rules[0].name: null is not text"),
        ({"name": ""}, 'rules[0].name: "" is not a name'),
        ({"name": "fault_inject"}, "rules[0].name: 'fault_inject' is the name of the classic rule"),
        ({"mach": {}}, "rules[0].mach: unknown key; did you mean match?"),
        ({"match": {"op": "lod"}}, 'rules[0].match.op[0]: "lod" is not an operation; did you mean load?'),
        ({"match": {"op": []}}, "rules[0].match.op"),
        ({"match": {"op": "load", "key_prefix": "xyz"}}, 'key_prefix[0]: "xyz" is not hexadecimal'),
        ({"match": {"op": "load", "kv_rank": -1}}, "rules[0].match.kv_rank[0]: -1 is not in [0, 4294967295]"),
        (
            {"match": {"op": "load", "position": {"from": 5, "to": 2}}},
            "rules[0].match.position[0]: from 5 to 2 holds no position",
        ),
        ({"match": {"op": "load", "batch_size": {"min": 9, "max": 2}}}, "batch_size: min 9 is above max 2"),
        ({"select": {"rate": "5%"}}, 'rules[0].select.rate: "5%" is not a number; write 5% as 0.05'),
        ({"fault": {"delay": "5s"}}, "is not a mapping of names to values; its keys are fixed, "),
        ({"select": {"rate": 1.5}}, "rules[0].select.rate: 1.5 is not in [0, 1]"),
        ({"select": {"seed": 2**63}}, f"rules[0].select.seed: {2**63} is not in"),
        ({"select": {"nth": 3, "first_n": 2}}, "rules[0].select: nth takes one and contradicts first_n"),
        ({"fault": "dorp"}, "rules[0].fault.dorp: unknown key; did you mean drop?"),
        ({"fault": {"drop": {}, "swap": {}}}, "rules[0].fault: needs one kind of fault, not drop and swap"),
        ({"fault": {}}, "rules[0].fault: needs one kind of fault, not none"),
        ({"fault": "hide"}, "rules[0]: fault.hide cannot strike load; faults of load are drop, error"),
        ({"fault": {"delay": {}}}, "rules[0].fault.delay: delays nothing"),
        (
            {"fault": {"delay": {"fixed": 5}}},
            "rules[0].fault.delay.fixed: 5 has no unit; write for example '5s'",
        ),
        ({"fault": {"delay": {"fixed": "-5s"}}}, "rules[0].fault.delay.fixed: '-5s' is not a duration"),
        ({"when": {"after": "10s", "until": "5s"}}, "rules[0].when: 'until' is not later than 'after'"),
        ({"when": {"for": "10s", "until": "5s"}}, "rules[0].when: 'for' and 'until' both say when it ends"),
        (
            {"when": {"repeat": {"every": "5s", "for": "6s"}}},
            "rules[0].when.repeat: windows overlap: 'for' must be shorter than 'every'",
        ),
    ],
)
def test_bad_input_is_named_with_its_place_and_the_fix(change: dict[str, Any], problem: str) -> None:
    assert problem in problem_of({**RULE, **change})


def test_a_rule_without_a_name_and_two_of_one_name_are_refused() -> None:
    assert "rules[0].name: missing, it is required" in problem_of({"match": {"op": "load"}, "fault": "drop"})
    assert "rules: [0] and [1] have the same name 'a'; rename one" in problem_of(RULE, RULE)


def test_rules_need_a_named_environment_and_production_a_flag() -> None:
    assert "environment: missing" in problem_of(RULE, environment="")
    assert "faults are not armed in 'Production'" in problem_of(RULE, environment="Production")
    assert "faults are not armed in 'prod'" in problem_of(environment="prod", fault_inject={"rate": 0.1})
    assert rules_of(environment="prod") == ()
    assert len(rules_of(RULE, environment="prod", safety={"allow_production": True})) == 1
