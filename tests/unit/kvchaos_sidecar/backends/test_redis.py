"""The Redis backend against a real server that fills up, refuses, freezes, dies and comes back, and against
LMCache's own adapter. What it does with objects otherwise is in tests/contract.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.contract.lmcache_adapter import LMCacheAdapter
from tests.contract.steps import content, fill, key, load, store, write_lease
from tests.harness.redis import RedisServer

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import BackendError, ReadLease, WriteLease
from kvchaos_sidecar.backends.redis import MAX_VALUE_BYTES, RedisBackend
from kvchaos_sidecar.backends.redis_client import RedisAddress, RedisTimeouts
from kvchaos_sidecar.backends.resp_keys import to_redis_key
from kvchaos_sidecar.backends.staging import StagingArea

MIB = 1 << 20
QUICK = RedisTimeouts(connect_s=1.0, silence_s=0.5)

Scenario = Callable[[RedisBackend], Awaitable[None]]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


def address_of(server: RedisServer, db: int = 0, username: str = "", password: str = "") -> RedisAddress:
    return RedisAddress(server.host, server.port, db, username, password)


def run(address: RedisAddress, scenario: Scenario, staging: StagingArea | None = None) -> None:
    """Runs a scenario against a started backend."""
    area = staging or StagingArea(256 * MIB, patience_s=0.2)

    async def started() -> None:
        backend = RedisBackend(address, area, timeouts=QUICK)
        await backend.start()
        try:
            await scenario(backend)
        finally:
            await backend.close()

    asyncio.run(started())
    assert area.used_bytes == 0


def start_error(address: RedisAddress) -> str:
    with pytest.raises(BackendError) as caught:
        run(address, lambda backend: backend.probe())
    return str(caught.value)


async def result_of(call: Awaitable[object]) -> Result:
    """The result that a call which fails as a whole gives each of its keys."""
    with pytest.raises(BackendError) as caught:
        await call
    return caught.value.result


async def until_healthy(backend: RedisBackend) -> None:
    while True:
        try:
            await backend.probe()
        except BackendError:
            await asyncio.sleep(0.05)
        else:
            return


KEYS = [
    key(1),
    key(2, salt="tenant-ä"),
    key(3, model="a/b c"),
    ObjectKey(b"\xff" * 64, "ünï/日本語", 2**32 - 1, 2**32 - 1, "s"),
]


class TestBesideLMCache:
    """The same server behind LMCache's own resp adapter."""

    def test_each_reads_what_the_other_wrote(self, server: RedisServer) -> None:
        spec = {"type": "resp", "host": server.host, "port": server.port}
        size = 1 << 20

        async def scenario(backend: RedisBackend) -> None:
            ours = {k: content(number, size) for number, k in enumerate(KEYS)}
            theirs = {k._replace(kv_rank=7): content(number + 10, size) for number, k in enumerate(KEYS)}
            assert await store(backend, ours) == [Result.OK] * len(KEYS)
            with LMCacheAdapter(spec) as adapter:
                assert adapter.contains(list(ours)) == [True] * len(KEYS)
                assert adapter.load(list(ours), [size] * len(KEYS)) == list(ours.values())
                assert adapter.store(theirs)
                assert await backend.contains(list(theirs)) == [True] * len(KEYS)
                assert await load(backend, list(theirs), [size] * len(KEYS)) == list(theirs.values())
                adapter.delete(list(ours))
                assert await backend.contains(list(ours)) == [False] * len(KEYS)
                assert await backend.delete(list(theirs)) == [size] * len(KEYS)
                assert adapter.contains(list(theirs)) == [False] * len(KEYS)

        run(address_of(server), scenario)

    def test_usage_is_counted_alike(self, server: RedisServer) -> None:
        spec = {"type": "resp", "host": server.host, "port": server.port}
        mine, salted, foreign = key(1), key(2, salt="s"), key(3)

        async def scenario(backend: RedisBackend) -> None:
            with LMCacheAdapter(spec) as adapter, server.client() as client:

                async def both_agree(total: int) -> None:
                    ours, theirs = await backend.usage(), adapter.usage()
                    assert ours.total_bytes == theirs.total_bytes_used == total
                    assert dict(ours.bytes_by_cache_salt) == dict(theirs.bytes_by_cache_salt)

                client.set(to_redis_key(foreign), b"x" * 10)
                await both_agree(0)
                for objects in ({mine: b"y" * 10}, {mine: b"y" * 10}, {salted: b"z" * 20}):
                    await store(backend, objects)
                    client.delete(*[to_redis_key(k) for k in objects])  # else theirs overwrites what is ours
                    adapter.store(objects)
                await both_agree(30)
                await backend.delete([foreign, mine])
                client.set(to_redis_key(mine), b"y" * 10)
                adapter.delete([foreign, mine])
                await both_agree(20)

        run(address_of(server), scenario)


class TestStart:
    """What is refused at the start, and what is waited for."""

    def test_a_server_that_is_down_is_waited_for(self, tmp_path: Path) -> None:
        server = RedisServer(tmp_path)

        async def scenario(backend: RedisBackend) -> None:
            assert await result_of(backend.probe()) is Result.UNAVAILABLE
            assert await result_of(backend.contains([key(1)])) is Result.UNAVAILABLE
            server.start()
            await backend.probe()
            assert await store(backend, {key(1): b"bytes"}) == [Result.OK]

        try:
            run(address_of(server), scenario)
        finally:
            server.stop()

    def test_a_wrong_or_missing_password_is_refused(self, tmp_path: Path) -> None:
        with RedisServer(tmp_path, "--requirepass", "right") as server:
            for password in ("", "wrong"):
                message = start_error(address_of(server, password=password))
                assert f"{server.host}:{server.port}" in message
                assert "password" in message
                assert "wrong" not in message
            run(address_of(server, password="right"), lambda backend: backend.probe())

    def test_a_password_for_a_server_without_one_is_refused(self, server: RedisServer) -> None:
        assert "password" in start_error(address_of(server, password="needless"))

    def test_a_user_name_is_used(self, tmp_path: Path) -> None:
        with RedisServer(tmp_path, "--user", "kv", "on", ">secret", "~*", "+@all") as server:
            run(address_of(server, username="kv", password="secret"), lambda backend: backend.probe())
            assert "username" in start_error(address_of(server, username="nobody", password="secret"))

    def test_a_database_that_does_not_exist_is_refused(self, server: RedisServer) -> None:
        assert "db" in start_error(address_of(server, db=16))

    def test_databases_are_apart(self, server: RedisServer) -> None:
        async def scenario(backend: RedisBackend) -> None:
            await store(backend, {key(1): b"bytes"})

        async def other(backend: RedisBackend) -> None:
            assert await backend.contains([key(1)]) == [False]

        run(address_of(server, db=3), scenario)
        run(address_of(server, db=4), other)

    def test_a_port_of_something_else_is_refused(self) -> None:
        other = socket.create_server(("127.0.0.1", 0))

        def greet() -> None:
            connection, _ = other.accept()
            with connection:
                connection.sendall(b"220 mail.example ESMTP\r\n")
                connection.recv(1)

        threading.Thread(target=greet, daemon=True).start()
        assert "port" in start_error(RedisAddress("127.0.0.1", other.getsockname()[1]))
        other.close()

    def test_the_password_is_not_in_the_description(self) -> None:
        address = RedisAddress("redis.example", 6379, 2, "user", "secret")
        backend = RedisBackend(address, StagingArea(MIB))
        assert backend.description == "redis.example:6379/2"
        asyncio.run(backend.close())


class TestTrouble:
    """A server that cannot do what it should."""

    def test_a_full_server_has_no_space_and_goes_on_reading(self, tmp_path: Path) -> None:
        with RedisServer(tmp_path, "--maxmemory", "6mb", "--maxmemory-policy", "noeviction") as server:

            async def scenario(backend: RedisBackend) -> None:
                assert await store(backend, {key(0): b"first"}) == [Result.OK]
                results = await store(backend, {key(n): content(n, MIB) for n in range(1, 9)})
                assert Result.NO_SPACE in results
                assert set(results) <= {Result.OK, Result.NO_SPACE}
                stored = [n for n, result in enumerate(results, start=1) if result is Result.OK]
                assert (await backend.usage()).total_bytes == 5 + len(stored) * MIB
                assert await backend.contains([key(n) for n in range(1, 9)]) == [
                    n in stored for n in range(1, 9)
                ]
                assert await load(backend, [key(0)], [5]) == [b"first"]

            run(address_of(server), scenario)

    def test_a_killed_server_is_an_error_until_it_is_back(self, tmp_path: Path) -> None:
        with RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:

            async def scenario(backend: RedisBackend) -> None:
                data = content(1, MIB)
                await store(backend, {key(1): data})
                lease = write_lease((await backend.open_writes([key(2)], [5]))[0])
                fill(lease, b"bytes")
                server.kill()
                assert await result_of(backend.publish([lease], [5])) is Result.UNAVAILABLE
                assert await result_of(backend.contains([key(1)])) is Result.UNAVAILABLE
                assert await result_of(backend.open_reads([key(1)], [MIB])) is Result.UNAVAILABLE
                assert await result_of(backend.open_writes([key(3)], [5])) is Result.UNAVAILABLE
                assert await result_of(backend.delete([key(1)])) is Result.UNAVAILABLE
                assert await result_of(backend.list_keys("", 10, "")) is Result.UNAVAILABLE
                server.start()
                await until_healthy(backend)
                assert await load(backend, [key(1)], [MIB]) == [data]
                assert await backend.contains([key(2)]) == [False]
                assert await store(backend, {key(2): b"bytes"}) == [Result.OK]

            run(address_of(server), scenario)

    def test_a_server_that_restarted_between_two_calls_is_not_noticed(self, server: RedisServer) -> None:
        async def scenario(backend: RedisBackend) -> None:
            await store(backend, {key(n): b"bytes" for n in range(20)})
            await load(backend, [key(n) for n in range(20)], [5] * 20)
            server.kill()
            server.start()
            assert await load(backend, [key(n) for n in range(20)], [5] * 20) == [Result.NOT_FOUND] * 20
            assert await store(backend, {key(1): b"bytes"}) == [Result.OK]

        run(address_of(server), scenario)

    def test_a_server_killed_in_the_middle_of_loads_and_stores(self, server: RedisServer) -> None:
        async def scenario(backend: RedisBackend) -> None:
            objects = {key(n): content(n, MIB) for n in range(32)}
            await store(backend, objects)

            async def keep_loading() -> None:
                while isinstance((await load(backend, list(objects), [MIB] * 32))[0], bytes):
                    pass

            async def keep_storing() -> None:
                number = 100
                while await store(backend, {key(number): b"x" * MIB}) == [Result.OK]:
                    number += 1

            traffic = asyncio.gather(keep_loading(), keep_storing(), return_exceptions=True)
            await asyncio.sleep(0.2)
            server.kill()
            for ended in await traffic:
                assert ended is None or isinstance(ended, BackendError)

        run(address_of(server), scenario)

    def test_a_frozen_server_times_out_and_thaws(self, server: RedisServer) -> None:
        async def scenario(backend: RedisBackend) -> None:
            await store(backend, {key(1): b"bytes"})
            lease = write_lease((await backend.open_writes([key(2)], [5]))[0])
            fill(lease, b"bytes")
            server.freeze()
            ended = await asyncio.gather(
                result_of(backend.contains([key(1)])),
                result_of(backend.open_reads([key(1)] * 50, [5] * 50)),
                result_of(backend.publish([lease], [5])),
                result_of(backend.probe()),
            )
            assert ended == [Result.TIMED_OUT] * 4
            server.thaw()
            await until_healthy(backend)
            assert await load(backend, [key(1)], [5]) == [b"bytes"]

        run(address_of(server), scenario)

    def test_a_name_that_does_not_resolve_is_unavailable(self) -> None:
        async def scenario(backend: RedisBackend) -> None:
            assert await result_of(backend.probe()) is Result.UNAVAILABLE

        run(RedisAddress("no-such-host.invalid", 6379), scenario)


class TestOthersInTheDatabase:
    """Keys that are not ours."""

    def test_a_listing_passes_over_them(self, server: RedisServer) -> None:
        async def scenario(backend: RedisBackend) -> None:
            objects = {key(n): b"bytes" for n in range(50)}
            await store(backend, objects)
            with server.client() as client:
                client.mset({f"session:{n}": "x" for n in range(5000)})
                client.mset({f"m@{n:08x}@0": "x" for n in range(100)})
                client.lpush("m@00000001@0@ff", "a list under one of our names")
            found: list[ObjectKey] = []
            cursor = ""
            while True:
                page = await backend.list_keys("", 7, cursor)
                assert len(page.entries) <= 7
                found += [k for k, _ in page.entries]
                cursor = page.next_cursor
                if not cursor:
                    break
            assert sorted(found) == sorted(objects)

        run(address_of(server), scenario)

    def test_what_is_no_string_is_neither_read_nor_deleted(self, server: RedisServer) -> None:
        async def scenario(backend: RedisBackend) -> None:
            await store(backend, {key(2): b"bytes"})
            with server.client() as client:
                client.lpush(to_redis_key(key(1)), "somebody else's")
                assert await load(backend, [key(1), key(2)], [5, 5]) == [Result.IO_ERROR, b"bytes"]
                assert await backend.delete([key(1), key(2)]) == [Result.IO_ERROR, 5]
                assert client.exists(to_redis_key(key(1))) == 1

        run(address_of(server), scenario)

    def test_an_object_that_somebody_replaced_is_a_mismatch(self, server: RedisServer) -> None:
        async def scenario(backend: RedisBackend) -> None:
            await store(backend, {key(1): b"bytes"})
            with server.client() as client:
                client.set(to_redis_key(key(1)), b"longer than before")
            assert await load(backend, [key(1)], [5]) == [Result.SIZE_MISMATCH]

        run(address_of(server), scenario)


class TestMemory:
    """What the staging area has no room for."""

    def test_a_load_larger_than_the_staging_area_is_granted_in_part(self, server: RedisServer) -> None:
        async def scenario(backend: RedisBackend) -> None:
            await store(backend, {key(n): content(n, MIB) for n in range(3)})
            await store(backend, {key(3): content(3, MIB)})
            loaded = await load(backend, [key(n) for n in range(4)], [MIB] * 4)
            assert loaded == [*(content(n, MIB) for n in range(3)), Result.NO_SPACE]

        run(address_of(server), scenario, StagingArea(3 * MIB, patience_s=0.2))

    def test_loads_wait_for_each_other(self, server: RedisServer) -> None:
        async def scenario(backend: RedisBackend) -> None:
            await store(backend, {key(1): content(1, MIB)})
            (first,) = await backend.open_reads([key(1)], [MIB])
            assert isinstance(first, ReadLease)
            second = asyncio.create_task(backend.open_reads([key(1)], [MIB]))
            await asyncio.sleep(0.05)
            assert not second.done()
            first.close()
            (lease,) = await second
            assert isinstance(lease, ReadLease)
            lease.close()

        run(address_of(server), scenario, StagingArea(MIB, patience_s=60.0))

    def test_what_a_string_cannot_hold_is_invalid(self, server: RedisServer) -> None:
        async def scenario(backend: RedisBackend) -> None:
            made = await backend.open_writes([key(1), key(2)], [MAX_VALUE_BYTES + 1, 5])
            assert made[0] is Result.INVALID
            assert isinstance(made[1], WriteLease)
            backend.discard([made[1]])

        run(address_of(server), scenario)

    def test_a_reader_cannot_write(self, server: RedisServer) -> None:
        async def scenario(backend: RedisBackend) -> None:
            await store(backend, {key(1): b"bytes"})
            (lease,) = await backend.open_reads([key(1)], [5])
            assert isinstance(lease, ReadLease)
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.pwrite(lease.extent.descriptor, b"spoil", 0)
            lease.close()

        run(address_of(server), scenario)
