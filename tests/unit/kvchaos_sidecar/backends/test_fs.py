"""Starting, probing and closing the directory backend. What it does with objects is in tests/contract."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.backends.contract import BackendError, WriteLease
from kvchaos_sidecar.backends.filenames import to_file_name
from kvchaos_sidecar.backends.fs import FsBackend

KEY = ObjectKey(b"\x01\x02", "a/model", 1)


def run(path: Path, scenario: Callable[[FsBackend], Awaitable[None]]) -> None:
    """Runs a scenario against a started backend."""

    async def started() -> None:
        backend = FsBackend(str(path))
        await backend.start()
        try:
            await scenario(backend)
        finally:
            await backend.close()

    asyncio.run(started())


def start_error(path: Path) -> str:
    with pytest.raises(BackendError) as caught:
        asyncio.run(FsBackend(str(path)).start())
    return str(caught.value)


def test_a_missing_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    async def scenario(backend: FsBackend) -> None:
        await backend.probe()

    run(tmp_path / "a" / "b", scenario)
    assert (tmp_path / "a" / "b").is_dir()


def test_making_a_backend_touches_nothing(tmp_path: Path) -> None:
    FsBackend(str(tmp_path / "l2"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "below"], ids=["in its place", "above it"])
def test_a_file_in_the_way_is_refused_at_start(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / below
    message = start_error(path)
    assert str(path) in message
    assert "must be a directory" in message


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o500])
def test_a_directory_without_permission_is_refused_at_start(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "l2"
    directory.mkdir(mode)
    if os.access(directory, os.R_OK | os.W_OK):
        pytest.skip("permissions do not bind this user")
    assert "Permission denied" in start_error(directory)


def test_a_relative_path_means_the_same_after_the_process_has_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = FsBackend("l2")
    monkeypatch.chdir("/")
    assert backend.description == str(tmp_path / "l2")


def test_the_probe_tells_that_the_directory_is_gone(tmp_path: Path) -> None:
    async def scenario(backend: FsBackend) -> None:
        await backend.probe()
        (tmp_path / "l2").rename(tmp_path / "moved")
        with pytest.raises(BackendError, match="No such file or directory"):
            await backend.probe()
        (tmp_path / "moved").rename(tmp_path / "l2")
        await backend.probe()

    run(tmp_path / "l2", scenario)


def test_a_backend_that_was_not_started_or_is_closed_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = FsBackend(str(tmp_path / "l2"))
        with pytest.raises(BackendError, match="not been started"):
            await backend.contains([KEY])
        await backend.close()
        with pytest.raises(BackendError, match="closed"):
            await backend.contains([KEY])

    asyncio.run(scenario())


def test_a_lease_can_be_discarded_after_close(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = FsBackend(str(tmp_path / "l2"))
        await backend.start()
        lease = (await backend.open_writes([KEY], [5]))[0]
        assert isinstance(lease, WriteLease)
        await backend.close()
        backend.discard([lease])
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(lease.extent.descriptor)

    asyncio.run(scenario())


def test_a_temporary_file_of_lmcache_is_not_an_object(tmp_path: Path) -> None:
    async def scenario(backend: FsBackend) -> None:
        (tmp_path / "a-SEP-model@0x00000001@0@0102.tmp").write_bytes(b"half")
        assert await backend.contains([KEY]) == [False]
        assert (await backend.list_keys("", 10, "")).entries == []

    run(tmp_path, scenario)


def test_names_are_kept_only_while_pages_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvchaos_sidecar.backends.fs._KEEP_NAMES_S", 0.1)
    for number in range(3):
        name = to_file_name(ObjectKey(bytes([number]), "model", 1))
        assert name is not None
        (tmp_path / os.fsdecode(name)).write_bytes(b"bytes")

    async def scenario(backend: FsBackend) -> None:
        names = backend._files.names
        first = await backend.list_keys("", 2, "")
        assert names.are_kept
        await backend.list_keys("", 2, first.next_cursor)
        await asyncio.sleep(0.05)
        assert not names.are_kept, "the last page ends the listing"
        await backend.list_keys("", 2, "")
        await asyncio.sleep(0.3)
        assert not names.are_kept, "a listing that was given up is forgotten"

    run(tmp_path, scenario)
