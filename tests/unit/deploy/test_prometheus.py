"""Prometheus's own tool accepts the configuration, the rules, and the unit tests of the alerts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[3]
PROMETHEUS = REPOSITORY / "deploy/prometheus"
ALERT_TESTS = REPOSITORY / "tests/deploy/prometheus/alerts_test.yml"
RULES = sorted((PROMETHEUS / "rules").glob("*.yml"))

ALERTS = [
    rule
    for path in RULES
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
]


def promtool(*arguments: str | Path) -> str:
    """What promtool prints; fails the test when it finds a fault."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_configuration_is_valid(tmp_path: Path) -> None:
    text = (PROMETHEUS / "prometheus.yml").read_text()
    here = tmp_path / "prometheus.yml"
    here.write_text(text.replace("/etc/prometheus", str(PROMETHEUS)))

    assert f"{len(RULES)} rule files found" in promtool("check", "config", here)


def test_the_alerts_fire_when_they_should_and_only_then() -> None:
    promtool("test", "rules", ALERT_TESTS)


def test_every_alert_has_a_unit_test() -> None:
    tested = set(re.findall(r"alertname: (\w+)", ALERT_TESTS.read_text()))

    assert tested == {rule["alert"] for rule in ALERTS}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert {"summary", "description"} == rule["annotations"].keys()
