"""Recoveries of several prompts at once while the daemon dies, comes back, drops, and takes its time."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from tests.harness.blend import CHUNK_TOKENS, CONFIGS, make_worker, prompt, random_model
from tests.harness.redis import RedisServer
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually

from kvchaos.client import L2Client
from kvchaos.errors import KVChaosError
from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.errors import Cancelled
from kvchaos_blend.l2 import L2Store
from kvchaos_blend.plan import Policy
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.progress import Event
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.report import Outcome
from kvchaos_blend.scatter import HostMemory
from kvchaos_blend.store import OnResult
from kvchaos_blend.worker import Worker

PROMPTS = [prompt(chunks * CHUNK_TOKENS + 5, seed=chunks) for chunks in (3, 6, 9)]
POOL_TOKENS = 4 * 512
AT_ONCE = 3
RECOVERIES = 10
"""Of each thread."""

BEGUN_WHILE_CONNECTED = 0.9
"""Share of the recoveries that begin with a daemon there; without one, nothing is loaded at all."""

PIECE_TAKES_S = 0.004

SLOW = [
    {"name": "slow-load", "match": {"op": "load"}, "fault": {"delay": {"fixed": "1ms", "jitter": "60ms"}}},
    {"name": "slow-lookup", "match": {"op": "lookup"}, "fault": {"delay": {"jitter": "20ms"}}},
    {"name": "slow-unlock", "match": {"op": "unlock"}, "fault": {"delay": {"jitter": "20ms"}}},
]


class SpoiltMemory(HostMemory):
    """Lends memory full of a finite number, so that whatever is used before it has come is seen."""

    def take(self, size_bytes: int) -> torch.Tensor:
        return super().take(size_bytes).fill_(0x3F)


class Dawdler(L2Store):
    """Delivers every second load late and piecemeal, as a slow transfer thread does."""

    def __init__(self, client: L2Client, chance: random.Random) -> None:
        super().__init__(client)
        self._chance = chance

    def load(
        self, keys: Sequence[ObjectKey], buffers: Sequence[memoryview], on_result: OnResult
    ) -> Future[list[Result]]:
        if self._chance.random() < 0.5:
            return super().load(keys, buffers, on_result)
        came = [bytearray(buffer.nbytes) for buffer in buffers]
        load = super().load(keys, [memoryview(one) for one in came], lambda *_: None)
        late: Future[list[Result]] = Future()
        threading.Thread(target=_deliver, args=(load, came, buffers, on_result, late)).start()
        return late


def _deliver(
    load: Future[list[Result]],
    came: Sequence[bytearray],
    buffers: Sequence[memoryview],
    on_result: OnResult,
    late: Future[list[Result]],
) -> None:
    """Refusals first, then one object after the other, each in two halves."""
    try:
        results = load.result()
    except KVChaosError as error:
        late.set_exception(error)
        return
    for position, result in enumerate(results):
        if result is not Result.OK:
            on_result(position, result)
    for position, result in enumerate(results):
        if result is Result.OK:
            half = len(came[position]) // 2
            buffers[position][:half] = came[position][:half]
            time.sleep(PIECE_TAKES_S)
            buffers[position][half:] = came[position][half:]
            on_result(position, result)
    late.set_result(results)


class Killer:
    """Kills the daemon and starts it again, each time that it has served for a while."""

    def __init__(self, sidecar: SidecarProcess, client: L2Client, chance: random.Random) -> None:
        self.kills = 0
        self._sidecar = sidecar
        self._client = client
        self._chance = chance
        self._enough = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._enough.set()
            thread.join()

    def _run(self) -> None:
        while not self._enough.wait(self._chance.uniform(0.1, 1.5)):
            self._sidecar.kill()
            self.kills += 1
            self._sidecar.restart()
            eventually(lambda: self._client.connected)


@pytest.fixture(params=["fs", "redis"])
def backend(request: pytest.FixtureRequest, store_path: Path) -> Iterator[Mapping[str, object]]:
    if request.param == "fs":
        yield {"type": "fs", "base_path": str(store_path)}
        return
    server = RedisServer(store_path)
    server.start()
    yield {"type": "redis", "host": server.host, "port": server.port}
    server.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_recovery_under_kills_drops_and_delays_is_exact(backend: Mapping[str, object]) -> None:
    faults = {"rate": 0.25, "seed": 5, "poison": "leave"}
    with (
        SidecarProcess(backend, faults, environment="test", rules=SLOW) as sidecar,
        L2Client(sidecar.cache_target, "blend-stress", timeout_s=10.0) as client,
    ):
        assert client.wait_connected(), client.cause
        worker = make_worker(
            random_model(CONFIGS["llama"]()), Dawdler(client, random.Random(2)), pool_tokens=POOL_TOKENS
        )
        worker = replace(worker, host_memory=SpoiltMemory(pinned=False))
        for token_ids in PROMPTS:
            store_prompt(worker, token_ids)
        killer = Killer(sidecar, client, random.Random(1))
        with killer.at_work(), ThreadPoolExecutor(AT_ONCE) as threads:
            endings = sum(threads.map(partial(_recover_often, worker, client), range(AT_ONCE)), Counter())
        assert endings["recovered"] > 0, endings
        assert endings["cancelled"] > 0, endings
        assert endings["loaded something after a gap"] > 0, endings
        assert killer.kills > 0
        assert worker.pool.free_blocks == worker.pool.total_blocks
        eventually(lambda: sidecar.metrics().value("kvchaos_locks") == 0)


def _recover_often(worker: Worker, client: L2Client, number: int) -> Counter[str]:
    chance = random.Random(number)
    endings: Counter[str] = Counter()
    for _ in range(RECOVERIES):
        if chance.random() < BEGUN_WHILE_CONNECTED:
            eventually(lambda: client.connected)
        endings.update(_recover_once(worker, chance))
    return endings


def _recover_once(worker: Worker, chance: random.Random) -> list[str]:
    request = RecoverRequest(
        chance.choice(PROMPTS), chance.choice(list(Policy)), heal=chance.random() < 0.2, verify=True
    )
    cancel = CancelToken()
    events_left = chance.randrange(1, 60) if chance.random() < 0.3 else -1

    def watch(_event: Event) -> None:
        nonlocal events_left
        events_left -= 1
        if events_left == 0:
            cancel.cancel("the test has seen enough")

    try:
        report = recover(worker, request, watch, cancel)
    except Cancelled:
        return ["cancelled"]
    assert report.verification is not None
    assert [gate for gate in report.verification.gates if not gate.passed] == [], report
    assert report.outcome is Outcome.RECOVERED
    kept = report.plan.kept_chunks
    return ["recovered", *(["loaded something after a gap"] if kept and kept[-1] >= len(kept) else [])]
