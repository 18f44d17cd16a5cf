"""What the demo shows, step by step, against a running cache server and sidecar.

The addresses are arguments: the same steps run on one machine and in containers.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.traffic import Served, Traffic
from kvchaos.control import ControlClient

CHUNKS = 8
PROMPT = 1
SETTLE_TIMEOUT_S = 30.0
POLL_S = 0.1


class StepFailed(Exception):
    """A step did not show what it should have."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The processes that the scenario talks to."""

    traffic: Traffic
    control: ControlClient
    rule_file: Path
    metrics_url: str
    clear_l1: Callable[[], None]
    """Empties the cache server's host memory."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the closing table."""

    step: str
    rules: str
    asked: int
    dropped: int
    """Chunks that the sidecar dropped in this step."""
    served: int
    expected: int
    intact: bool

    @property
    def passed(self) -> bool:
        """Whether the cache server delivered what it should, unharmed."""
        return self.served == self.expected and self.intact


def run(stack: Stack) -> Iterator[Row]:
    """Yields a row after each step. The sidecar starts with gap_tail_ratios [0.5] in its rule file."""
    stack.traffic.store(PROMPT)
    _wait_until_stored(stack)
    yield _recall(stack, "start", "gap_tail_ratios [0.5]", CHUNKS // 2)

    stack.control.set_faults(gap_tail_ratios=[])
    yield _recall(stack, "cleared by API", "none", CHUNKS)

    stack.control.reset()
    generation = stack.control.get_config().generation
    rewrite_rules(stack.rule_file, "fault_inject: {gap_indices: [2]}")
    _wait_for_reload(stack, generation)
    yield _recall(stack, "file edited", "gap_indices [2]", 2)

    stack.control.halt("demo")
    yield _recall(stack, "halted by API", "gap_indices [2]", CHUNKS)
    stack.control.resume()


def rewrite_rules(rule_file: Path, fault_inject: str) -> None:
    """Replaces the last line of the rule file, which holds its ``fault_inject``."""
    kept = [line for line in rule_file.read_text().splitlines() if not line.startswith("fault_inject:")]
    rule_file.write_text("\n".join([*kept, fault_inject]) + "\n")


def metric_lines(metrics_url: str, prefixes: tuple[str, ...]) -> list[str]:
    """The lines of /metrics that start with one of ``prefixes``."""
    with urllib.request.urlopen(metrics_url, timeout=10) as reply:
        return [line for line in reply.read().decode().splitlines() if line.startswith(prefixes)]


def dropped_total(metrics_url: str) -> int:
    """Keys dropped since the sidecar started, over all rules and reasons."""
    return sum(
        round(float(line.rsplit(" ", 1)[1])) for line in metric_lines(metrics_url, ("kvchaos_drops_total{",))
    )


def _recall(stack: Stack, step: str, rules: str, expected: int) -> Row:
    before = dropped_total(stack.metrics_url)
    stack.clear_l1()
    served: Served = stack.traffic.recall(PROMPT)
    dropped = dropped_total(stack.metrics_url) - before
    row = Row(step, rules, served.asked, dropped, served.hit, expected, served.intact)
    if not row.passed:
        got = f"{served.hit} of {served.asked} chunks served (intact: {served.intact})"
        raise StepFailed(f"{step}: {got}, expected {expected}")
    return row


def _wait_until_stored(stack: Stack) -> None:
    stored = 'kvchaos_keys_total{op="store",result="ok"}'

    def count() -> float:
        return sum(float(line.rsplit(" ", 1)[1]) for line in metric_lines(stack.metrics_url, (stored,)))

    _poll(lambda: count() >= CHUNKS, f"the sidecar has not stored {CHUNKS} chunks")


def _wait_for_reload(stack: Stack, generation: int) -> None:
    _poll(
        lambda: stack.control.get_config().generation > generation,
        "the sidecar has not taken the edited rule file",
    )


def _poll(done: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while not done():
        if time.monotonic() > deadline:
            raise StepFailed(f"{failure} after {SETTLE_TIMEOUT_S:g} s")
        time.sleep(POLL_S)
