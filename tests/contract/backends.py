"""The backends that the contract suite runs over. Adding one is adding a Case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvchaos_sidecar.backends.contract import Backend
from kvchaos_sidecar.backends.fs import FsBackend
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


def _fs(request: pytest.FixtureRequest) -> Backend:
    directory: Path = request.getfixturevalue("tmp_path")
    return FsBackend(str(directory / "l2"))


def _memory(request: pytest.FixtureRequest) -> Backend:
    return MemoryBackend(GIB, max_objects=12_000)


def _redis(request: pytest.FixtureRequest) -> Backend:
    server: RedisServer = request.getfixturevalue("empty_redis")
    return RedisBackend(RedisAddress(server.host, server.port), StagingArea(GIB))


CASES = {
    "fs": Case(_fs),
    "memory": Case(_memory),
    "redis": Case(_redis),
}
