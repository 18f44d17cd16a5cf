"""The fs backend on a full disk and on one that cannot be written."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import BackendError
from kvchaos_sidecar.backends.fs import FsBackend
from tests.contract.steps import content, key, load, store, write_leases

MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1.5 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1536k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_full_disk_refuses_and_shows_nothing(small_disk: Path) -> None:
    async def scenario() -> None:
        backend = FsBackend(str(small_disk))
        await backend.start()
        objects = {key(number): content(number, MIB) for number in range(3)}
        assert await store(backend, objects) == [Result.OK, Result.NO_SPACE, Result.NO_SPACE]
        assert await backend.contains(list(objects)) == [True, False, False]
        assert len(list(small_disk.glob("*.data"))) == 1
        assert await backend.delete([key(0)]) == [MIB]
        assert await store(backend, {key(1): objects[key(1)]}) == [Result.OK]
        assert await load(backend, [key(1)], [MIB]) == [objects[key(1)]]
        await backend.close()

    asyncio.run(scenario())


def test_room_is_set_aside_when_it_is_granted(small_disk: Path) -> None:
    """Else the client would be the one to find the disk full, in the middle of its write."""

    async def scenario() -> None:
        backend = FsBackend(str(small_disk))
        await backend.start()
        first = await backend.open_writes([key(1)], [MIB])
        assert await backend.open_writes([key(2)], [MIB]) == [Result.NO_SPACE]
        backend.discard(write_leases(first))
        await backend.close()

    asyncio.run(scenario())


def test_a_disk_that_cannot_be_written_is_refused_at_start(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(BackendError, match="Read-only file system"):
        asyncio.run(FsBackend(str(small_disk)).start())
