"""What a real LMCache server does under each fault at load, lookup and store, in a bounded run each.

Each fault is armed for one prompt of eight chunks, which is stored, dropped from host memory and asked for
again. What came of it is a row of docs/faults/lmcache.md; ``KVCHAOS_WRITE_TABLE=1`` writes it anew.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from deploy.demo.traffic import Served, Traffic, connect
from tests.harness.lmcache import LMCacheServer, plugin_spec
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually

from kvchaos.control import ControlClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAGE = Path(__file__).parents[2] / "docs" / "faults" / "lmcache.md"
CHUNKS = 8
PLUGIN_TIMEOUT_S = 2.0
PATIENCE_S = 20.0
SETTLE_S = 4.0
SLOW_S = 0.9


class Trial(NamedTuple):
    """One fault."""

    operation: str
    fault: str
    """As a rule file writes it."""
    position: str = ""
    """Which positions it strikes; empty for all."""

    @property
    def rule(self) -> str:
        """The rule."""
        position = f", position: {self.position}" if self.position else ""
        return f"{{name: trial, match: {{op: {self.operation}{position}}}, fault: {self.fault}}}"


LOAD = [
    Trial("load", "drop", "4"),
    Trial("load", "{error: {cause: not_found}}", "4"),
    Trial("load", "{error: {cause: timed_out}}", "4"),
    Trial("load", "{error: {cause: short_read}}", "4"),
    Trial("load", "{error: {cause: io_error}}", "4"),
    Trial("load", "{error: {cause: unavailable}}", "4"),
    Trial("load", "{truncate: {keep_bytes: 1000}}", "4"),
    Trial("load", "{oversize: {extra_bytes: 64}}", "4"),
    Trial("load", "{flip_bits: {offset: 0}}", "4"),
    Trial("load", "swap", "[4, 5]"),
    Trial("load", "{delay: {fixed: 1s}}"),
    Trial("load", "{bandwidth: {bytes_per_second: 8388608}}"),
    Trial("load", "never_complete"),
    Trial("load", "refuse"),
    Trial("load", "{complete_late: {after_delay: 3s}}"),
    Trial("load", "complete_twice"),
    Trial("load", "exchange_results"),
]
LOOKUP = [
    Trial("lookup", "hide", "4"),
    Trial("lookup", "force_delete", "4"),
    Trial("lookup", "{error: {cause: io_error}}", "4"),
    Trial("lookup", "{delay: {fixed: 1s}}"),
    Trial("lookup", "never_complete"),
    Trial("lookup", "refuse"),
]
STORE = [
    Trial("store", "{errno: {code: ENOSPC}}", "4"),
    Trial("store", "{errno: {code: EINVAL}}", "4"),
    Trial("store", "{errno: {code: EIO}}", "4"),
    Trial("store", "lose_then_acknowledge", "4"),
    Trial("store", "keep_then_refuse", "4"),
    Trial("store", "{torn: {keep_bytes: 1000, acknowledge: true}}", "4"),
    Trial("store", "{torn: {keep_bytes: 1000, acknowledge: false}}", "4"),
    Trial("store", "{delay: {fixed: 1s}}"),
    Trial("store", "never_complete"),
    Trial("store", "refuse"),
]
CLAIMS = [Trial("lookup", "claim_falsely"), Trial("[lookup, load]", "{stale_positive: {times: 2}}")]
"""Faults about keys that are not stored."""

ROOM_BYTES = CHUNKS // 2 << 20
BUDGET = Trial("store", "{byte_budget: {bytes: HELD}}")
"""HELD is what the store holds already and :data:`ROOM_BYTES`, half of the prompt."""
OLDER = Trial("load", "older_version", "4")

prompts = count(1)


class Bench:
    """A cache server over a sidecar, and a client of it."""

    def __init__(
        self, sidecar: SidecarProcess, server: LMCacheServer, traffic: Traffic, store_path: Path
    ) -> None:
        self.sidecar = sidecar
        self.store_path = store_path
        self.server = server
        self.traffic = traffic
        self.control = ControlClient(sidecar.control_target)

    def stored_or_not(self) -> float:
        """Keys whose store was answered."""
        return self.sidecar.metrics().value("kvchaos_keys_total", op="store")

    def locks(self) -> float:
        """Locks that the sidecar holds for the cache server."""
        return self.sidecar.metrics().value("kvchaos_locks")

    def fired(self) -> float:
        """Keys that the rules of all trials so far have hit."""
        try:
            return self.sidecar.metrics().value("kvchaos_rule_fired_total", rule="trial")
        except KeyError:
            return 0

    def store(self, prompt: int) -> None:
        """Stores what is missing of a prompt and waits until L2 has heard of all of that, or for a while."""
        before = self.stored_or_not()
        missing = self.traffic.store(prompt)
        deadline = time.monotonic() + SETTLE_S
        while self.stored_or_not() < before + missing and time.monotonic() < deadline:
            time.sleep(0.05)

    def recall(self, prompt: int) -> tuple[Served | None, float]:
        """What is served from L2, and how long it took; None when it was stuck until injection was halted."""
        self.server.clear_l1()
        found: list[Served] = []
        thread = threading.Thread(target=lambda: found.append(self.traffic.recall(prompt)))
        started = time.monotonic()
        thread.start()
        thread.join(PATIENCE_S)
        took = time.monotonic() - started
        if found:
            return found[0], took
        self.control.halt("stuck")
        thread.join(PATIENCE_S)
        self.control.resume()
        assert not thread.is_alive(), "the cache server did not go on after the halt"
        return None, took


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("under-faults")
    store_path = directory / "l2"
    with ExitStack() as stack:
        backend = {"type": "fs", "base_path": str(store_path)}
        sidecar = stack.enter_context(SidecarProcess(backend, environment="test"))
        server = LMCacheServer(
            [plugin_spec(sidecar.cache_target, timeout_s=PLUGIN_TIMEOUT_S)], directory / "lmcache.log"
        )
        stack.callback(server.stop)
        server.wait_ready()
        traffic = stack.enter_context(connect(server.rpc_url, server.http_url, CHUNKS))
        yield Bench(sidecar, server, traffic, store_path)


def locks_left(bench: Bench, before: float) -> str:
    """Waits until the sidecar holds no grant and no call. Which locks the cache server has not given back."""
    for name in ("kvchaos_grants", "kvchaos_held_calls"):
        eventually(lambda name=name: bench.sidecar.metrics().value(name) == 0, f"{name} 0")  # type: ignore[misc]
    deadline = time.monotonic() + SETTLE_S
    while (left := bench.locks() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    return f"{left:g}"


def judged(served: Served | None, took_s: float) -> str:
    """One word and the numbers behind it."""
    if served is None:
        return f"stuck: not answered within {PATIENCE_S:g} s, until halt"
    if not served.intact:
        return f"wrong: {served.hit} of {served.asked} served, with other bytes than were stored"
    slow = "slow, " if took_s > SLOW_S else ""
    return f"{slow}correct: {served.hit} of {served.asked}"


def check_row(trial: Trial, then: str, afterwards: str, locks: str) -> None:
    """Compares a row of the page, or writes it."""
    operation = trial.operation.strip("[]")
    fault = trial.fault[1:-1] if trial.fault.startswith("{") else trial.fault
    key = f"| {operation} | `{fault}` | {trial.position or 'all'} |"
    row = f"{key} {then} | {afterwards} | {locks} |"
    text = PAGE.read_text()
    if os.environ.get("KVCHAOS_WRITE_TABLE"):
        pattern = rf"^{re.escape(key)}.*$"
        text = re.sub(pattern, lambda _: row, text, flags=re.MULTILINE) if key in text else f"{text}{row}\n"
        PAGE.write_text(text)
    assert row in text.splitlines()


@pytest.mark.parametrize("trial", [*LOAD, *LOOKUP], ids=lambda trial: f"{trial.operation}-{trial.fault}")
def test_a_stored_prompt_is_asked_for_under_a_fault(bench: Bench, trial: Trial) -> None:
    prompt, locks, fired = next(prompts), bench.locks(), bench.fired()
    bench.store(prompt)
    bench.control.add_rules(trial.rule)
    served, took = bench.recall(prompt)
    assert bench.fired() > fired
    bench.control.reset()
    afterwards, slow = bench.recall(prompt)
    check_row(trial, judged(served, took), judged(afterwards, slow), locks_left(bench, locks))


@pytest.mark.parametrize("trial", STORE, ids=lambda trial: f"{trial.operation}-{trial.fault}")
def test_a_prompt_is_stored_under_a_fault(bench: Bench, trial: Trial) -> None:
    prompt, locks, fired = next(prompts), bench.locks(), bench.fired()
    bench.control.add_rules(trial.rule)
    bench.store(prompt)
    assert bench.fired() > fired
    bench.control.reset()
    served, took = bench.recall(prompt)
    bench.store(prompt)
    afterwards, slow = bench.recall(prompt)
    check_row(trial, judged(served, took), judged(afterwards, slow), locks_left(bench, locks))


@pytest.mark.parametrize("trial", CLAIMS, ids=lambda trial: f"{trial.operation}-{trial.fault}")
def test_a_prompt_that_is_not_stored_is_claimed_by_a_fault(bench: Bench, trial: Trial) -> None:
    prompt, locks, fired = next(prompts), bench.locks(), bench.fired()
    bench.control.add_rules("{name: nothing-stored, match: {op: store}, fault: lose_then_acknowledge}")
    bench.store(prompt)
    bench.control.add_rules(trial.rule)
    served, took = bench.recall(prompt)
    assert bench.fired() > fired
    bench.control.reset()
    afterwards, slow = bench.recall(prompt)
    check_row(trial, judged(served, took), judged(afterwards, slow), locks_left(bench, locks))


def test_a_prompt_is_stored_into_a_budget_for_half_of_it(bench: Bench) -> None:
    prompt, locks, fired = next(prompts), bench.locks(), bench.fired()
    budget = bench.control.get_status().backend.total_bytes + ROOM_BYTES
    bench.control.add_rules(BUDGET.rule.replace("HELD", str(budget)))
    bench.store(prompt)
    assert bench.fired() > fired
    bench.control.reset()
    served, took = bench.recall(prompt)
    bench.store(prompt)
    afterwards, slow = bench.recall(prompt)
    check_row(BUDGET, judged(served, took), judged(afterwards, slow), locks_left(bench, locks))


def test_a_prompt_is_served_with_what_one_of_its_chunks_held_before(bench: Bench) -> None:
    prompt, locks, fired = next(prompts), bench.locks(), bench.fired()
    others = set(bench.store_path.iterdir())
    bench.store(prompt)
    stored = {path: path.read_bytes() for path in bench.store_path.iterdir() if path not in others}
    assert len(stored) == CHUNKS
    for path, data in stored.items():
        path.write_bytes(bytes(len(data)))
    bench.control.add_rules(OLDER.rule)
    bench.recall(prompt)
    for path, data in stored.items():
        path.write_bytes(data)
    served, took = bench.recall(prompt)
    assert bench.fired() == fired + 2
    bench.control.reset()
    afterwards, slow = bench.recall(prompt)
    check_row(OLDER, judged(served, took), judged(afterwards, slow), locks_left(bench, locks))
