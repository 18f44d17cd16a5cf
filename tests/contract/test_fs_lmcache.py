"""The fs backend and LMCache's own ``fs`` and ``fs_native`` adapters on one directory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.fs import FsBackend
from tests.contract.lmcache_adapter import LMCacheAdapter
from tests.contract.steps import content, load, store

T = TypeVar("T")

HASH = bytes(range(32))
KEYS = [
    ObjectKey(HASH, "meta-llama/Llama-3.1-8B", 0x02010201),
    ObjectKey(HASH, "meta-llama/Llama-3.1-8B", 0),
    ObjectKey(HASH, "meta-llama/Llama-3.1-8B", 2**32 - 1, 0, "tenant a"),
    ObjectKey(HASH, "meta-llama/Llama-3.1-8B", 1, 2**32 - 1, "tenant.b"),
    ObjectKey(HASH[:16], "/a//b/", 1, 10, ".data"),
    ObjectKey(HASH[:1], "ünï/日本", 1, 16, "sält"),
    ObjectKey(HASH, "a-SEP-b", 1),
    ObjectKey(HASH, "back\\slash model.data", 1),
    ObjectKey(HASH, "", 7, 0, "x" * 128),
]
SIZES = [1, 4096, 4097, 100, 1 << 20, 5, 6, 7, 8]
OBJECTS = {key: content(number, size) for number, (key, size) in enumerate(zip(KEYS, SIZES, strict=True))}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "l2"


@pytest.fixture(params=["fs", "fs_native"])
def adapter(request: pytest.FixtureRequest, directory: Path) -> Iterator[LMCacheAdapter]:
    with LMCacheAdapter({"type": request.param, "base_path": str(directory)}) as adapter:
        yield adapter


def serve(directory: Path, scenario: Callable[[FsBackend], Awaitable[T]]) -> T:
    """Runs a scenario against an fs backend on the directory."""

    async def run() -> T:
        backend = FsBackend(str(directory))
        await backend.start()
        try:
            return await scenario(backend)
        finally:
            await backend.close()

    return asyncio.run(run())


def data_files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.data")}


def test_it_reads_what_lmcache_wrote(adapter: LMCacheAdapter, directory: Path) -> None:
    assert adapter.store(OBJECTS)

    async def scenario(backend: FsBackend) -> None:
        assert await backend.contains(KEYS) == [True] * len(KEYS)
        assert await load(backend, KEYS, SIZES) == list(OBJECTS.values())
        assert await store(backend, OBJECTS) == [Result.PRESENT] * len(KEYS)

    serve(directory, scenario)


def test_lmcache_reads_what_it_wrote(adapter: LMCacheAdapter, directory: Path) -> None:
    async def scenario(backend: FsBackend) -> None:
        assert await store(backend, OBJECTS) == [Result.OK] * len(KEYS)

    serve(directory, scenario)
    assert adapter.contains(KEYS) == [True] * len(KEYS)
    assert adapter.load(KEYS, SIZES) == list(OBJECTS.values())


def test_both_write_the_same_files(adapter: LMCacheAdapter, directory: Path, tmp_path: Path) -> None:
    assert adapter.store(OBJECTS)

    async def scenario(backend: FsBackend) -> None:
        await store(backend, OBJECTS)

    serve(tmp_path / "ours", scenario)
    theirs, ours = data_files(directory), data_files(tmp_path / "ours")
    assert len(theirs) == len(KEYS)
    assert ours == theirs
    name = next(iter(theirs))
    assert (tmp_path / "ours" / name).stat().st_mode == (directory / name).stat().st_mode


def test_each_sees_what_the_other_deleted(adapter: LMCacheAdapter, directory: Path) -> None:
    adapter.store(OBJECTS)

    async def scenario(backend: FsBackend) -> None:
        assert await backend.delete(KEYS[:1]) == [SIZES[0]]
        assert adapter.contains(KEYS[:2]) == [False, True]
        adapter.delete(KEYS[1:2])
        assert await backend.contains(KEYS[:3]) == [False, False, True]
        assert await backend.delete(KEYS[1:2]) == [Result.NOT_FOUND]

    serve(directory, scenario)


def test_it_lists_what_lmcache_wrote_and_nothing_else(adapter: LMCacheAdapter, directory: Path) -> None:
    adapter.store(OBJECTS)
    (directory / "unrelated.data").write_bytes(b"x")
    (directory / "m@0x00000001@0@00.tmp").write_bytes(b"x")

    async def scenario(backend: FsBackend) -> None:
        page = await backend.list_keys("", 100, "")
        as_read_back = {key._replace(model_name=key.model_name.replace("-SEP-", "/")) for key in KEYS}
        assert {key for key, _ in page.entries} == as_read_back
        assert sorted(size for _, size in page.entries) == sorted(SIZES)

    serve(directory, scenario)


def test_usage_is_counted_as_lmcache_counts(tmp_path: Path) -> None:
    """The same calls on two directories that hold the same objects of an earlier process."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    earlier = dict(list(OBJECTS.items())[:3])
    deleted = [*earlier, *KEYS[3:4]]
    for directory in (ours, theirs):
        with LMCacheAdapter({"type": "fs", "base_path": str(directory)}) as adapter:
            adapter.store(earlier)
    with LMCacheAdapter({"type": "fs", "base_path": str(theirs)}) as adapter:
        adapter.store(OBJECTS)
        adapter.delete(deleted)
        expected = adapter.usage()

    async def scenario(backend: FsBackend) -> None:
        await store(backend, OBJECTS)
        await backend.delete(deleted)
        usage = await backend.usage()
        assert usage.total_bytes == expected.total_bytes_used
        assert dict(usage.bytes_by_cache_salt) == dict(expected.bytes_by_cache_salt)

    serve(ours, scenario)
