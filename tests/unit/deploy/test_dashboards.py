"""The committed dashboards: fresh, complete, and asking only for metrics that exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from kvchaos_blend.metrics import BlendMetrics
from kvchaos_sidecar.metrics import Metrics

DEPLOY = Path(__file__).parents[3] / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana/dashboards").glob("*.json"))
METRIC = re.compile(r"\bkvchaos_\w+")

SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "info": ("_info",),
}

every_dashboard = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


def panels(path: Path) -> Iterator[dict[str, Any]]:
    """The panels of a dashboard that draw something."""
    return (panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row")


def test_the_files_are_what_the_generator_writes() -> None:
    command = [sys.executable, str(DEPLOY / "grafana/generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@every_dashboard
def test_every_panel_has_a_unit_a_description_legends_and_thresholds(path: Path) -> None:
    for panel in panels(path):
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["description"].endswith("."), panel["title"]
        assert defaults["unit"], panel["title"]
        assert defaults["thresholds"]["steps"], panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]


@every_dashboard
def test_panels_do_not_overlap(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(path.read_text())["panels"]:
        box = panel["gridPos"]
        cells = {
            (x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])
        }
        assert not cells & taken, panel["title"]
        assert box["x"] + box["w"] <= 24, panel["title"]
        taken |= cells


@every_dashboard
def test_changes_of_the_rules_are_marked(path: Path) -> None:
    annotations = json.loads(path.read_text())["annotations"]["list"]

    assert {"Reload", "Refused reload", "Rules changed", "Halted"} <= {one["name"] for one in annotations}


@pytest.mark.parametrize(
    "path", [*DASHBOARDS, *sorted((DEPLOY / "prometheus/rules").glob("*.yml"))], ids=lambda path: path.name
)
def test_no_query_names_a_metric_that_does_not_exist(path: Path) -> None:
    named = {name for expression in _expressions(path) for name in METRIC.findall(expression)}

    assert named
    assert named <= _exported_names()


def _expressions(path: Path) -> list[str]:
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        queries = [target["expr"] for panel in panels(path) for target in panel["targets"]]
        queries += [one["expr"] for one in document["annotations"]["list"]]
        return queries + [str(variable["query"]) for variable in document["templating"]["list"]]
    groups = yaml.safe_load(path.read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def _exported_names() -> set[str]:
    registry = CollectorRegistry()
    Metrics(registry, backend="memory", version="0")
    BlendMetrics(registry, version="0", model="none", attention="none")
    return {f"{metric.name}{suffix}" for metric in registry.collect() for suffix in SUFFIXES[metric.type]}
