"""Stands in for an engine beside the compose set: drives a real LMCache server and says what it was served.

drive.py                  steps with and without faults, a table, exit code 1 when a step differs
drive.py --steady 600     the same prompts again and again for so many seconds, one JSON line each
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deploy.demo.traffic import Served, Traffic, connect

from kvchaos.control import ControlClient

CHUNKS = 8
PROMPTS = range(1, 5)
SETTLE_S = 2.0
"""LMCache writes to L2 behind the answer to a store."""
PAUSE_S = 0.5

RPC_URL = os.environ.get("LMCACHE_RPC_URL", "tcp://lmcache:5555")
HTTP_URL = os.environ.get("LMCACHE_HTTP_URL", "http://lmcache:8080")


@dataclass(frozen=True, slots=True)
class Step:
    """A change of the faults, and how many of a prompt's chunks should then be served; None: some of them."""

    name: str
    change: Callable[[ControlClient], object]
    expected: int | None


STEPS = (
    Step("no faults", lambda control: control.set_faults(rate=0.0, gap_tail_ratios=[]), CHUNKS),
    Step("gap in the middle", lambda control: control.set_faults(gap_tail_ratios=[0.5]), CHUNKS // 2),
    Step("halted", lambda control: control.halt("demo"), CHUNKS),
    Step("resumed", lambda control: control.resume(), CHUNKS // 2),
    Step(
        "a fifth of the keys", lambda control: control.set_faults(rate=0.2, seed=7, gap_tail_ratios=[]), None
    ),
    Step("reset", lambda control: control.reset(), CHUNKS),
)


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steady", type=float, metavar="SECONDS", help="steady traffic for so long")
    options = parser.parse_args()
    with connect(RPC_URL, HTTP_URL, CHUNKS) as traffic:
        for prompt in PROMPTS:
            traffic.store(prompt)
        time.sleep(SETTLE_S)
        if options.steady:
            return _steady(traffic, options.steady)
        with ControlClient(os.environ["KVCHAOS_TARGET"]) as control:
            return _show(list(_run_steps(traffic, control)))


def _run_steps(traffic: Traffic, control: ControlClient) -> Iterator[bool]:
    print(f"{'step':<22}{'asked':>7}{'served':>8}{'dropped':>9}  ok", flush=True)
    for step in STEPS:
        step.change(control)
        before = control.get_status().fired_total
        served = [_recall(traffic, prompt) for prompt in PROMPTS]
        dropped = control.get_status().fired_total - before
        asked, hit = sum(one.asked for one in served), sum(one.hit for one in served)
        ok = all(one.intact and step.expected in (None, one.hit) for one in served)
        print(f"{step.name:<22}{asked:>7}{hit:>8}{dropped:>9}  {'yes' if ok else 'NO'}", flush=True)
        yield ok


def _show(outcomes: list[bool]) -> int:
    return 0 if all(outcomes) else 1


def _steady(traffic: Traffic, seconds: float) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for prompt in PROMPTS:
            served = _recall(traffic, prompt)
            print(json.dumps({"asked": served.asked, "hit": served.hit, "intact": served.intact}), flush=True)
            if served.hit < served.asked and traffic.store(prompt):
                time.sleep(SETTLE_S)
            time.sleep(PAUSE_S)
    return 0


def _recall(traffic: Traffic, prompt: int) -> Served:
    """Asks for a prompt that is in L2 only."""
    body = json.dumps({"tier": "l1", "force": True}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{HTTP_URL}/cache/clear", body, headers)  # noqa: S310  (an argument)
    with urllib.request.urlopen(request, timeout=10):  # noqa: S310
        return traffic.recall(prompt)


if __name__ == "__main__":
    sys.exit(main())
