"""A real LMCache server keeps serving whatever happens to the sidecar behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from deploy.demo.traffic import Traffic, connect
from tests.harness.lmcache import LMCacheServer, plugin_spec
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

CHUNKS = 8
TIMEOUT_S = 2.0


@dataclass
class Server:
    """A cache server with a client connected to it."""

    process: LMCacheServer
    traffic: Traffic

    def recall_from_l2(self, prompt: int) -> tuple[int, bool]:
        """Chunks served with host memory emptied first, and whether they are intact."""
        self.process.clear_l1()
        served = self.traffic.recall(prompt)
        return served.hit, served.intact

    def plugin_status(self) -> dict[str, object]:
        """What the plugin reports inside the cache server's status."""
        adapters = self.process.status()["storage_manager"]["l2_adapters"]
        return dict(adapters[0])


@pytest.fixture
def server(fs_sidecar: SidecarProcess, tmp_path: Path) -> Iterator[Server]:
    with ExitStack() as stack:
        spec = plugin_spec(fs_sidecar.cache_target, timeout_s=TIMEOUT_S)
        process = LMCacheServer([spec], tmp_path / "lmcache.log")
        stack.callback(process.stop)
        process.wait_ready()
        yield Server(process, stack.enter_context(connect(process.rpc_url, process.http_url, CHUNKS)))


def _stored(sidecar: SidecarProcess) -> float:
    return sidecar.metrics().value("kvchaos_keys_total", op="store", result="ok")


def test_it_misses_while_the_sidecar_is_dead_and_recovers_by_itself(
    server: Server, fs_sidecar: SidecarProcess
) -> None:
    server.traffic.store(1)
    eventually(lambda: _stored(fs_sidecar) == CHUNKS, "storing 8 chunks")
    assert server.recall_from_l2(1) == (CHUNKS, True)

    fs_sidecar.kill()
    assert server.recall_from_l2(1) == (0, True)
    server.traffic.store(2)
    assert server.traffic.recall(2).hit == CHUNKS, "host memory must go on serving"
    assert server.plugin_status()["is_healthy"] is False

    fs_sidecar.restart()
    eventually(lambda: server.recall_from_l2(1) == (CHUNKS, True), "serving from L2 again")
    assert server.plugin_status()["is_healthy"] is True
    warnings = [
        line for line in server.process.process.log().splitlines() if "WARNING" in line and "kvchaos" in line
    ]
    assert len([line for line in warnings if "lost" in line or "cannot" in line or "down" in line]) <= 2


def test_its_status_says_that_faults_are_injected(server: Server, fs_sidecar: SidecarProcess) -> None:
    fs_sidecar.write_config(
        fault_inject={"rate": 0.25, "seed": 9, "gap_indices": [3], "gap_tail_ratios": [0.5]}
    )

    def shown() -> bool:
        reported = server.plugin_status()["fault_inject"]
        expected = {"rate": 0.25, "seed": 9, "gap_indices": [3], "gap_tail_ratios": [0.5]}
        return isinstance(reported, dict) and expected.items() <= reported.items()

    eventually(shown, "the new rules in the cache server's status")


def test_with_faults_off_it_serves_what_lmcaches_own_adapter_stored(
    server: Server, fs_sidecar: SidecarProcess, tmp_path: Path
) -> None:
    server.traffic.store(1)
    eventually(lambda: _stored(fs_sidecar) == CHUNKS, "storing 8 chunks")
    own = LMCacheServer([{"type": "fs", "base_path": str(tmp_path / "l2")}], tmp_path / "own.log")
    try:
        own.wait_ready()
        with connect(own.rpc_url, own.http_url, CHUNKS) as traffic:
            traffic.store(1)
            own.clear_l1()
            served = traffic.recall(1)
        assert (served.hit, served.intact) == (CHUNKS, True)
        assert server.recall_from_l2(1) == (CHUNKS, True)
    finally:
        own.stop()
