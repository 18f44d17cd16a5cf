"""LMCache's own ``bench l2``, with verification, through the plugin: every backend, both transports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.harness.lmcache import plugin_spec
from tests.harness.redis import RedisServer
from tests.harness.sidecar import SidecarProcess

KEYS = 32
ROUNDS = 2

Backend = Mapping[str, object]


def _fs(path: Path, redis: RedisServer) -> Backend:
    return {"type": "fs", "base_path": str(path / "l2")}


def _memory(path: Path, redis: RedisServer) -> Backend:
    return {"type": "memory", "capacity_bytes": 1 << 30}


def _redis(path: Path, redis: RedisServer) -> Backend:
    redis.start()
    return {"type": "redis", "host": redis.host, "port": redis.port}


def _hosted_fs_native(path: Path, redis: RedisServer) -> Backend:
    return {"type": "lmcache", "inner": {"type": "fs_native", "base_path": str(path / "l2")}}


def _hosted_resp(path: Path, redis: RedisServer) -> Backend:
    redis.start()
    return {"type": "lmcache", "inner": {"type": "resp", "host": redis.host, "port": redis.port}}


@pytest.fixture(
    params=[_fs, _memory, _redis, _hosted_fs_native, _hosted_resp], ids=lambda make: make.__name__[1:]
)
def sidecar(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SidecarProcess]:
    """A daemon over each backend."""
    make: Callable[[Path, RedisServer], Backend] = request.param
    redis = RedisServer(tmp_path)
    with ExitStack() as stack:
        stack.callback(redis.stop)
        yield stack.enter_context(SidecarProcess(make(tmp_path, redis)))


def _bench(adapter: Mapping[str, object], size_kb: int) -> str:
    lmcache = Path(sys.executable).parent / "lmcache"
    options = f"--num-keys {KEYS} --data-size-kb {size_kb} --rounds {ROUNDS} --lookup-max-hit-rate 1.0"
    command = [
        str(lmcache),
        "bench",
        "l2",
        *options.split(),
        "--no-skip-verify",
        "--l2-adapter",
        json.dumps(adapter),
    ]
    environment = {**os.environ, "LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("handoff", "size_kb"), [(True, 1024), (False, 256)], ids=["handoff", "inline"])
def test_every_key_comes_back_verified(sidecar: SidecarProcess, handoff: bool, size_kb: int) -> None:
    printed = _bench(plugin_spec(sidecar.cache_target, handoff=handoff), size_kb)

    assert f"All {KEYS} keys data verified OK" in printed
    rounds = re.findall(r"(?:success_keys|found|loaded)=(\d+)/(\d+)", printed)
    assert len(rounds) == 3 * (ROUNDS + 1)
    assert set(rounds) == {(str(KEYS), str(KEYS))}
    transport = "handoff" if handoff else "inline"
    loaded = sidecar.metrics().value("kvchaos_bytes_total", op="load", transport=transport)
    assert loaded >= ROUNDS * KEYS * size_kb * 1024
