"""Every query of every dashboard and recording rule has data in a Prometheus that watched a real run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.deploy.compose import REPOSITORY, ComposeSet
from tests.deploy.conftest import wait_healthy
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

DASHBOARDS = sorted((REPOSITORY / "deploy/grafana/dashboards").glob("*.json"))
RULES = REPOSITORY / "deploy/prometheus/rules/recording.yml"
POLICIES = 3
VARIABLES = {"$__rate_interval": "20s", "$instance": ".*", "$rule": ".*"}
"""What Grafana would put in: four scrape intervals, and All."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One query and where it stands."""

    place: str
    expression: str


def queries_of(path: Path) -> Iterator[Asked]:
    """The queries of a dashboard's panels and annotations, as Grafana would send them."""
    dashboard = json.loads(path.read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield Asked(f"{path.stem}: {panel['title']}", _filled_in(target["expr"]))
    for annotation in dashboard["annotations"]["list"]:
        yield Asked(f"{path.stem}: annotation {annotation['name']}", _filled_in(annotation["expr"]))


def _filled_in(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


@pytest.fixture(scope="module")
def watched(stack: ComposeSet, config_file: Path) -> ComposeSet:
    """The set after traffic with and without faults, recoveries, a reload, a refused reload and a halt."""
    text = config_file.read_text()
    stack.up("blend")
    stack.compose("run", "--rm", "demo")
    wait_healthy(stack, "blend")
    stack.kvchaos("set", "--gap-indices", "1")
    stack.inside("blend", "python3", "/demo/recover.py", "--tokens", "768")
    eventually(lambda: stack.value("sum(kvchaos_blend_recoveries_total)") == POLICIES, "the recoveries")
    stack.kvchaos("reset")
    for fault, counter in (("rate: 0.3", "applied"), ("rate: 3", "refused")):
        config_file.write_text(text.replace("rate: 0.0", fault))
        _wait_until_counted(stack, f'kvchaos_reloads_total{{result="{counter}"}}')
    config_file.write_text(text)
    stack.kvchaos("halt")
    eventually(lambda: stack.value("kvchaos_halted") == 1, "the halt in Prometheus")
    stack.kvchaos("resume")
    return stack


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_query_of_the_dashboard_has_data(watched: ComposeSet, path: Path) -> None:
    empty = [asked for asked in queries_of(path) if not watched.has_data(asked.expression)]

    assert not empty


def test_every_recorded_series_is_there(watched: ComposeSet) -> None:
    names = [
        rule["record"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]

    assert [name for name in names if not watched.has_data(name)] == []


def test_the_worker_recovers_exactly_what_the_sidecar_drops(watched: ComposeSet) -> None:
    tokens = "sum by (action) (kvchaos_blend_prompt_tokens_total{policy='segmented_prefix'})"
    by_action = {one["metric"]["action"]: float(one["value"][1]) for one in watched.samples(tokens)}

    assert by_action == {"loaded": 512, "recomputed": 256, "dropped": 0}
    assert watched.value("sum(kvchaos_blend_gates_total{result='passed'})")
    assert not watched.value("sum(kvchaos_blend_gates_total{result='failed'})")


def test_every_choice_of_a_variable_has_values(watched: ComposeSet) -> None:
    assert watched.label_values("kvchaos_build_info", "instance") == ["sidecar:9464"]
    assert watched.label_values("kvchaos_blend_build_info", "instance") == ["blend:9471"]
    assert "fault_inject" in watched.label_values("kvchaos_rule_evaluated_total", "rule")


def _wait_until_counted(stack: ComposeSet, counter: str) -> None:
    eventually(lambda: stack.has_data(f"increase({counter}[1m]) > 0"), counter)
