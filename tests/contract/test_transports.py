"""Every backend behind a real daemon, over both transports: the same results, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from kvchaos.client import L2Client
from kvchaos.results import Result
from kvchaos.session import Transport
from tests.harness.redis import RedisServer
from tests.harness.sidecar import SidecarProcess
from tests.harness.wire import make_keys

Settings = Mapping[str, object]
MIB = 1 << 20


def _fs(path: Path, redis: RedisServer) -> Settings:
    return {"type": "fs", "base_path": str(path / "l2")}


def _memory(path: Path, redis: RedisServer) -> Settings:
    return {"type": "memory", "capacity_bytes": 1 << 30}


def _redis(path: Path, redis: RedisServer) -> Settings:
    redis.start()
    return {"type": "redis", "host": redis.host, "port": redis.port}


def _lmcache(path: Path, redis: RedisServer) -> Settings:
    return {"type": "lmcache", "inner": {"type": "fs_native", "base_path": str(path / "l2")}}


@pytest.fixture(
    scope="module", params=[_fs, _memory, _redis, _lmcache], ids=lambda settings: settings.__name__[1:]
)
def daemon(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SidecarProcess]:
    settings: Callable[[Path, RedisServer], Settings] = request.param
    path = tmp_path_factory.mktemp("store")
    redis = RedisServer(path)
    with ExitStack() as stack:
        stack.callback(redis.stop)
        yield stack.enter_context(SidecarProcess(settings(path, redis)))


@pytest.fixture(params=list(Transport))
def client(request: pytest.FixtureRequest, daemon: SidecarProcess) -> Iterator[L2Client]:
    handoff = request.param is Transport.HANDOFF
    with L2Client(daemon.cache_target, "contract", handoff=handoff, timeout_s=60) as connected:
        assert connected.wait_connected(), connected.cause
        assert connected.facts is not None
        assert connected.facts.transport is request.param
        yield connected


def test_what_was_stored_comes_back_and_neighbours_are_left_alone(client: L2Client) -> None:
    sizes = [1, 4097, 3 * MIB + 17]
    keys, objects = make_keys(len(sizes)), [os.urandom(size) for size in sizes]
    assert client.lookup_and_lock(keys).result() == [Result.NOT_FOUND] * 3
    assert client.store(keys, objects).result() == [Result.OK] * 3
    assert client.lookup_and_lock(keys).result() == [Result.OK] * 3
    buffers = [bytearray(sizes[0]), bytearray(100), bytearray(sizes[1]), bytearray(sizes[2])]
    absent = make_keys(1)
    loaded = client.load([keys[0], *absent, *keys[1:]], buffers).result()
    assert loaded == [Result.OK, Result.NOT_FOUND, Result.OK, Result.OK]
    assert [buffers[0], *buffers[2:]] == objects
    assert buffers[1] == bytes(100)
    assert client.unlock(keys).result() == 3


def test_another_size_is_a_miss_and_what_is_there_is_kept(client: L2Client) -> None:
    keys = make_keys(1)
    client.store(keys, [b"first"]).result()
    assert client.load(keys, [bytearray(6)]).result() == [Result.SIZE_MISMATCH]
    assert client.store(keys, [b"other"]).result()[0] in (Result.OK, Result.PRESENT)
    buffer = bytearray(5)
    assert client.load(keys, [buffer]).result() == [Result.OK]
    assert buffer == b"first"


def test_what_is_deleted_is_gone_and_no_longer_counted(client: L2Client) -> None:
    keys = make_keys(2)
    before = client.usage().result().total_bytes
    client.store(keys, [bytes(1000)] * 2).result()
    assert client.usage().result().total_bytes - before == 2000
    deleted = client.delete([keys[0], *make_keys(1)]).result()
    assert [one.result for one in deleted] == [Result.OK, Result.NOT_FOUND]
    assert client.usage().result().total_bytes - before == 1000
    assert client.lookup_and_lock(keys).result() == [Result.NOT_FOUND, Result.OK]


def test_no_lock_is_left_when_all_are_given_back(client: L2Client) -> None:
    keys = make_keys(3)
    client.store(keys, [bytes(10)] * 3).result()
    client.lookup_and_lock(keys).result()
    assert client.status().result().locks == 3
    client.unlock(keys).result()
    assert client.status().result().locks == 0
