"""Hosted adapters: LMCache's own beside the same adapter in this process, and one that does not behave.

What a hosted adapter does with objects otherwise is in tests/contract.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contract.lmcache_adapter import LMCacheAdapter
from tests.contract.steps import content, fill, key, load, read_lease, store, write_lease
from tests.harness.redis import RedisServer
from tests.harness.unruly_adapter import UnrulyAdapter

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import BackendError
from kvchaos_sidecar.backends.lmcache.backend import LMCacheBackend
from kvchaos_sidecar.backends.staging import StagingArea

MIB = 1 << 20
KIB_IN_GB = 1 / (1 << 20)
TIMEOUT_S = 0.5

Scenario = Callable[[LMCacheBackend], Awaitable[None]]


@pytest.fixture
def area() -> StagingArea:
    return StagingArea(64 * MIB, patience_s=0.2)


def run(
    spec: dict[str, Any], scenario: Scenario, timeout_s: float = 30.0, area: StagingArea | None = None
) -> None:
    """Runs a scenario against a started backend."""

    async def started() -> None:
        staging = area or StagingArea(64 * MIB, patience_s=0.2)
        backend = LMCacheBackend(spec, staging, timeout_s, close_timeout_s=TIMEOUT_S)
        await backend.start()
        try:
            await scenario(backend)
        finally:
            await backend.close()

    asyncio.run(started())


def start_error(spec: dict[str, Any], timeout_s: float = 30.0) -> str:
    async def nothing(_backend: LMCacheBackend) -> None:
        return

    with pytest.raises(BackendError) as caught:
        run(spec, nothing, timeout_s)
    return str(caught.value)


async def result_of(call: Awaitable[object]) -> Result:
    """The result that a call which fails as a whole gives each of its keys."""
    with pytest.raises(BackendError) as caught:
        await call
    return caught.value.result


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def unruly(**params: Any) -> dict[str, Any]:
    return {
        "type": "plugin",
        "module_path": "tests.harness.unruly_adapter",
        "class_name": "UnrulyAdapter",
        "adapter_params": params,
    }


def adapter() -> UnrulyAdapter:
    """The one made last."""
    return UnrulyAdapter.made[-1]


class TestBesideTheSameAdapter:
    """Hosted, and in this process, on the same directory: nothing differs."""

    @pytest.mark.parametrize("type_name", ["fs", "fs_native"])
    def test_hits_bytes_and_usage(self, tmp_path: Path, type_name: str) -> None:
        hosted_spec = {"type": type_name, "base_path": str(tmp_path / "l2")}
        size = 1 << 16
        keys = [key(n, salt="s" * (n % 2)) for n in range(8)]
        objects = {k: content(n, size) for n, k in enumerate(keys)}
        first, second = dict(list(objects.items())[:5]), dict(list(objects.items())[3:])

        async def scenario(backend: LMCacheBackend) -> None:
            with LMCacheAdapter({"type": type_name, "base_path": str(tmp_path / "reference")}) as reference:
                for batch in (first, second):
                    assert {Result.OK, Result.PRESENT} >= set(await store(backend, batch))
                    assert reference.store(batch)
                assert await backend.contains(keys) == reference.contains(keys)
                ours = await load(backend, keys, [size] * 8)
                assert ours == reference.load(keys, [size] * 8) == list(objects.values())
                usage, expected = await backend.usage(), reference.usage()
                assert usage.total_bytes == expected.total_bytes_used
                assert dict(usage.bytes_by_cache_salt) == dict(expected.bytes_by_cache_salt)
                assert usage.capacity_bytes == expected.total_capacity_bytes
                await backend.delete(keys[:3])
                reference.delete(keys[:3])
                assert await backend.contains(keys) == reference.contains(keys)
                assert (await backend.usage()).total_bytes == reference.usage().total_bytes_used
            with LMCacheAdapter(hosted_spec) as same:
                assert same.contains(keys) == [False] * 3 + [True] * 5
                assert same.load(keys[3:], [size] * 5) == list(objects.values())[3:]
                assert same.store({keys[0]: b"x" * size})
            assert await load(backend, keys[:1], [size]) == [b"x" * size]

        run(hosted_spec, scenario)
        assert sorted(os.listdir(tmp_path / "l2")) == sorted(
            {*os.listdir(tmp_path / "reference"), *os.listdir(tmp_path / "l2")}
        )

    def test_direct_io_reads_and_writes_whole_pages(self, tmp_path: Path) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            data = content(1, 8192)
            assert await store(backend, {key(1): data}) == [Result.OK]
            assert await load(backend, [key(1)], [8192]) == [data]

        run({"type": "fs_native", "base_path": str(tmp_path), "use_odirect": True}, scenario)

    @pytest.mark.parametrize(
        ("type_name", "others"), [("fs", Result.OK), ("fs_native", Result.IO_ERROR)], ids=["fs", "fs_native"]
    )
    def test_a_name_that_is_too_long_is_an_error(
        self, tmp_path: Path, type_name: str, others: Result
    ) -> None:
        """With fs_native for its whole batch, whose lookups it fails as well."""

        async def scenario(backend: LMCacheBackend) -> None:
            too_long = ObjectKey(b"h" * 32, "m" * 300, 1)
            objects = {key(1): b"bytes", too_long: b"bytes", key(2): b"bytes"}
            assert await store(backend, objects) == [others, Result.IO_ERROR, others]
            assert await load(backend, [key(1), key(2)], [5] * 2) == [b"bytes"] * 2
            assert await load(backend, [too_long], [5]) == [Result.NOT_FOUND]

        run({"type": type_name, "base_path": str(tmp_path)}, scenario)


class TestOtherAdapters:
    """What others of LMCache's adapters have of their own."""

    def test_a_missing_key_does_not_hang_the_resp_adapter(self, tmp_path: Path) -> None:
        with RedisServer(tmp_path) as server:

            async def scenario(backend: LMCacheBackend) -> None:
                await store(backend, {key(1): b"bytes"})
                assert await load(backend, [key(0), key(1)], [5, 5]) == [Result.NOT_FOUND, b"bytes"]
                assert await load(backend, [key(1)], [4]) == [Result.SIZE_MISMATCH]
                assert await load(backend, [key(1)], [5]) == [b"bytes"]

            run({"type": "resp", "host": server.host, "port": server.port}, scenario)

    def test_an_adapter_that_cannot_be_made_is_refused_at_start(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        message = start_error({"type": "fs", "base_path": str(tmp_path / "file")})
        assert message.startswith("backend.inner (fs): LMCache cannot make the adapter: ")
        missing = {"type": "plugin", "module_path": "no_such_module", "class_name": "C"}
        assert "no_such_module" in start_error(missing)

    def test_an_adapter_that_never_answers_is_refused_at_start(self) -> None:
        message = start_error({"type": "resp", "host": "127.0.0.1", "port": 1}, TIMEOUT_S)
        assert message == "backend.inner: LMCache's resp adapter did not answer within 0.5 s"

    def test_an_adapter_that_skips_what_does_not_fit_has_no_space(self) -> None:
        spec = {"type": "mock", "max_size_gb": 100 * KIB_IN_GB, "mock_bandwidth_gb": 100}

        async def scenario(backend: LMCacheBackend) -> None:
            assert backend.capacity_bytes == 100 << 10
            objects = {key(n): b"x" * (40 << 10) for n in range(4)}
            assert await store(backend, objects) == [Result.OK] * 2 + [Result.NO_SPACE] * 2

        run(spec, scenario)

    def test_the_adapters_own_eviction_runs(self) -> None:
        spec = {
            "type": "mock",
            "max_size_gb": 100 * KIB_IN_GB,
            "mock_bandwidth_gb": 100,
            "eviction": {"eviction_policy": "LRU", "trigger_watermark": 0.5, "eviction_ratio": 0.5},
        }

        async def scenario(backend: LMCacheBackend) -> None:
            keys = [key(n) for n in range(8)]
            await store(backend, dict.fromkeys(keys, b"x" * (10 << 10)))
            while (await backend.usage()).total_bytes > 50 << 10:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            there = await backend.contains(keys)
            assert (await backend.usage()).total_bytes == (10 << 10) * sum(there)
            assert await load(backend, keys, [10 << 10] * 8) == [
                b"x" * (10 << 10) if kept else Result.NOT_FOUND for kept in there
            ]

        run(spec, scenario)

    def test_eviction_that_lmcache_would_skip_is_refused(self, tmp_path: Path) -> None:
        spec = {"type": "fs_native", "base_path": str(tmp_path), "eviction": {"eviction_policy": "LRU"}}
        assert start_error(spec).startswith("backend.inner.eviction: fs_native has no capacity")

    def test_lmcaches_fault_inject_can_be_hosted(self, tmp_path: Path) -> None:
        inner = {"type": "fs_native", "base_path": str(tmp_path)}

        async def scenario(backend: LMCacheBackend) -> None:
            objects = {key(n): content(n, 100) for n in range(4)}
            assert await store(backend, objects) == [Result.OK] * 4
            assert await backend.contains(list(objects)) == [True] * 4
            loaded = await load(backend, list(objects), [100] * 4)
            assert loaded == [content(0, 100), Result.IO_ERROR, content(2, 100), content(3, 100)]

        run({"type": "fault_inject", "inner": inner, "gap_indices": [1]}, scenario)


class TestLocks:
    """Every lock of the adapter is given back, once."""

    def test_a_lock_holds_until_it_is_given_back(self) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            await store(backend, {key(1): b"bytes", key(2): b"bytes"})
            assert await backend.lock([key(1), key(0), key(1), key(2)]) == [True, False, True, True]
            assert adapter().total_locks() == 3
            assert await backend.delete([key(1)]) == [Result.IO_ERROR]
            await backend.unlock([key(1), key(2)])
            await until(lambda: adapter().total_locks() == 1)
            assert await backend.delete([key(1), key(2)]) == [Result.IO_ERROR, 5]
            await backend.unlock([key(1)])
            await until(lambda: adapter().total_locks() == 0)
            assert await backend.delete([key(1)]) == [5]

        run(unruly(), scenario)

    def test_asking_loading_and_storing_leave_nothing_locked(self) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            await store(backend, {key(n): b"bytes" for n in range(3)})
            await store(backend, {key(n): b"bytes" for n in range(3)})
            await backend.contains([key(n) for n in range(4)])
            await load(backend, [key(n) for n in range(4)], [5] * 4)
            await backend.delete([key(0), key(3)])
            await until(lambda: adapter().total_locks() == 0)

        run(unruly(), scenario)

    def test_a_lookup_that_answers_too_late_leaves_nothing_locked(self) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            await store(backend, {key(1): b"bytes"})
            adapter().hold("lookup")
            assert await result_of(backend.lock([key(1)])) is Result.TIMED_OUT
            cancelled = asyncio.create_task(backend.lock([key(1)]))
            await asyncio.sleep(0.05)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
            adapter().hold()
            assert await backend.lock([key(1)]) == [True]
            await until(lambda: adapter().total_locks() == 1)

        run(unruly(), scenario, TIMEOUT_S)


class TestAdaptersThatHang:
    """A call that never returns holds up no other kind, and its memory is not used for anything else."""

    def test_a_load_that_ends_late_spoils_nothing(self, area: StagingArea) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            late, other = content(1, MIB), content(2, MIB)
            await store(backend, {key(1): late, key(2): other})
            adapter().hold("load")
            assert await result_of(backend.open_reads([key(1)], [MIB])) is Result.TIMED_OUT
            held = area.used_bytes
            assert held == MIB
            cancelled = asyncio.create_task(backend.open_reads([key(1)], [MIB]))
            await until(lambda: area.used_bytes == 2 * MIB)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
            assert area.used_bytes == 2 * MIB
            adapter().hold()
            await until(lambda: area.used_bytes == 0)
            assert await load(backend, [key(2)], [MIB]) == [other]

        run(unruly(), scenario, TIMEOUT_S, area)

    def test_a_store_that_ends_late_is_stored_and_gives_its_memory_back(self, area: StagingArea) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            lease = write_lease((await backend.open_writes([key(1)], [5]))[0])
            fill(lease, b"bytes")
            adapter().hold("store")
            assert await result_of(backend.publish([lease], [5])) is Result.TIMED_OUT
            assert area.used_bytes > 0
            backend.discard([lease])
            assert area.used_bytes > 0
            adapter().hold()
            await until(lambda: area.used_bytes == 0)
            assert await load(backend, [key(1)], [5]) == [b"bytes"]

        run(unruly(), scenario, TIMEOUT_S, area)

    def test_a_hanging_lookup_does_not_hold_up_the_rest(self) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            await store(backend, {key(1): b"bytes"})
            await backend.lock([key(1)])
            adapter().hold("lookup")
            assert await result_of(backend.contains([key(1)])) is Result.TIMED_OUT
            assert await load(backend, [key(1)], [5]) == [b"bytes"]
            await backend.probe()
            await backend.usage()
            adapter().hold()
            assert await backend.contains([key(1)]) == [True]

        run(unruly(), scenario, TIMEOUT_S)

    def test_a_submit_that_hangs_does_not_hold_up_the_daemon(self) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            adapter().hold("submit")
            assert await result_of(backend.contains([key(1)])) is Result.TIMED_OUT
            await backend.probe()
            adapter().hold()
            assert await backend.contains([key(1)]) == [False]

        run(unruly(), scenario, TIMEOUT_S)

    def test_an_adapter_that_hangs_can_be_closed(self, area: StagingArea) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            await store(backend, {key(1): b"bytes"})
            adapter().hold("load", "close")
            assert await result_of(backend.open_reads([key(1)], [5])) is Result.TIMED_OUT

        run(unruly(), scenario, TIMEOUT_S, area)
        assert area.used_bytes > 0  # the adapter still has it
        adapter().hold()


class TestAdaptersThatComplain:
    """Errors of an adapter are errors of the call, with a name."""

    def test_an_unhealthy_adapter_fails_its_probe(self) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            await backend.probe()
            adapter().healthy = False
            with pytest.raises(BackendError, match="plugin adapter says that it is not healthy"):
                await backend.probe()

        run(unruly(), scenario)

    def test_a_submit_that_raises_fails_the_call_and_keeps_nothing(self, area: StagingArea) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            await store(backend, {key(1): b"bytes"})

            def refuse(*_arguments: object) -> int:
                raise RuntimeError("no more tasks")

            adapter().submit_load_task = refuse
            with pytest.raises(BackendError, match="no more tasks") as caught:
                await backend.open_reads([key(1)], [5])
            assert caught.value.result is Result.IO_ERROR
            assert area.used_bytes == 0

        run(unruly(), scenario, area=area)

    def test_a_call_before_the_start_and_after_the_end_is_an_error(self) -> None:
        async def scenario() -> None:
            backend = LMCacheBackend(unruly(), StagingArea(MIB))
            assert await result_of(backend.contains([key(1)])) is Result.UNAVAILABLE
            await backend.start()
            await backend.close()
            assert await result_of(backend.contains([key(1)])) is Result.UNAVAILABLE
            await backend.unlock([key(1)])
            await backend.close()

        asyncio.run(scenario())


class TestListing:
    """An adapter that can list."""

    def test_pages_are_passed_on(self) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            objects = {key(n): b"x" * (n + 1) for n in range(5)}
            await store(backend, {**objects, key(9, model="other"): b"x"})
            first = await backend.list_keys(key(0).model_name, 3, "")
            last = await backend.list_keys(key(0).model_name, 3, first.next_cursor)
            assert last.next_cursor == ""
            assert dict([*first.entries, *last.entries]) == {k: len(data) for k, data in objects.items()}

        run(unruly(), scenario)


class TestRegisteredMemory:
    """An adapter that knows only memory it was made with."""

    def test_it_gets_one_contiguous_run_and_every_object_in_it(self) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            assert adapter().l1_memory_desc.size == 64 * MIB
            for size in (1, 4096, 5000, MIB):
                objects = {key(size + n): content(n, size) for n in range(3)}
                assert await store(backend, objects) == [Result.OK] * 3
                assert await load(backend, list(objects), [size] * 3) == list(objects.values())

        run(unruly(), scenario)

    def test_what_does_not_fit_has_no_space_and_leaves_the_rest_usable(self, area: StagingArea) -> None:
        async def scenario(backend: LMCacheBackend) -> None:
            await store(backend, {key(1): content(1, 20 * MIB), key(2): content(2, 20 * MIB)})
            adapter().hold("load")
            waiting = [asyncio.create_task(backend.open_reads([key(1)], [20 * MIB])) for _ in range(3)]
            await until(lambda: area.used_bytes == 60 * MIB)
            assert await backend.open_reads([key(2)], [20 * MIB]) == [Result.NO_SPACE]
            adapter().hold()
            for loaded in await asyncio.gather(*waiting):
                read_lease(loaded[0]).close()
            assert await load(backend, [key(2)], [20 * MIB]) == [content(2, 20 * MIB)]

        run(unruly(), scenario, area=area)
