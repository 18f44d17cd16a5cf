"""The backends that the contract suite runs over. Adding one is adding a Case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kvchaos_sidecar.backends.contract import Backend
from kvchaos_sidecar.backends.fs import FsBackend
from kvchaos_sidecar.backends.lmcache.backend import LMCacheBackend
from kvchaos_sidecar.backends.memory import MemoryBackend
from kvchaos_sidecar.backends.redis import RedisBackend
from kvchaos_sidecar.backends.redis_client import RedisAddress
from kvchaos_sidecar.backends.staging import StagingArea
from tests.harness.redis import RedisServer

GIB = 1 << 30


@dataclass(frozen=True)
class Case:
    """How to make a backend for one test."""

    make: Callable[[pytest.FixtureRequest], Backend]
    """A new backend, not started, on a store that is empty when the test begins. May ask for fixtures."""
    can_list: bool = True
    """False when list_keys raises ListingUnsupported."""
    checks_names: bool = True
    """False when a key that the store cannot represent is found out only as it is stored."""


def _fs(request: pytest.FixtureRequest) -> Backend:
    directory: Path = request.getfixturevalue("tmp_path")
    return FsBackend(str(directory / "l2"))


def _memory(request: pytest.FixtureRequest) -> Backend:
    return MemoryBackend(GIB, max_objects=12_000)


def _redis(request: pytest.FixtureRequest) -> Backend:
    server: RedisServer = request.getfixturevalue("empty_redis")
    return RedisBackend(RedisAddress(server.host, server.port), StagingArea(GIB))


def _hosted(spec: Callable[[pytest.FixtureRequest], dict[str, Any]], checks_names: bool = True) -> Case:
    """An adapter of LMCache's. None of these can list its keys."""
    return Case(lambda request: LMCacheBackend(spec(request), StagingArea(GIB)), False, checks_names)


def _hosted_fs(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"type": "fs", "base_path": str(request.getfixturevalue("tmp_path") / "l2")}


def _hosted_fs_native(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"type": "fs_native", "base_path": str(request.getfixturevalue("tmp_path") / "l2")}


def _hosted_resp(request: pytest.FixtureRequest) -> dict[str, Any]:
    server: RedisServer = request.getfixturevalue("empty_redis")
    return {"type": "resp", "host": server.host, "port": server.port}


def _hosted_mock(_request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"type": "mock", "max_size_gb": 1, "mock_bandwidth_gb": 1000}


CASES = {
    "fs": Case(_fs),
    "memory": Case(_memory),
    "redis": Case(_redis),
    "lmcache-fs": _hosted(_hosted_fs, checks_names=False),
    "lmcache-fs_native": _hosted(_hosted_fs_native, checks_names=False),
    "lmcache-resp": _hosted(_hosted_resp),
    "lmcache-mock": _hosted(_hosted_mock),
}
