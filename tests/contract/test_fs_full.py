"""The fs backend on a full disk and on one that cannot be written."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import BackendError
from kvchaos_sidecar.backends.fs import FsBackend
from tests.contract.steps import content, key, load, store, write_leases

MIB = 1 << 20


@contextmanager
def mounted(place: Path, *arguments: str | Path) -> Iterator[Path]:
    place.mkdir()
    if subprocess.run(["mount", *arguments, place], capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def small_memory(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory, of 1.5 MiB."""
    with mounted(tmp_path / "memory", "-t", "tmpfs", "-o", "size=1536k", "tmpfs") as place:
        yield place


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system on a device, with room for one object of 1 MiB but not for two."""
    image = tmp_path / "image"
    image.touch()
    os.truncate(image, 2 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", image], check=True)
    with mounted(tmp_path / "disk", "-o", "loop", image) as place:
        yield place


@pytest.fixture(params=["small_disk", "small_memory"])
def small_place(request: pytest.FixtureRequest) -> Path:
    """Either of them."""
    place: Path = request.getfixturevalue(request.param)
    return place


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


def test_in_memory_the_writer_finds_it_full_and_nothing_shows(small_memory: Path) -> None:
    async def scenario() -> None:
        backend = FsBackend(str(small_memory))
        await backend.start()
        assert await store(backend, {key(0): content(0, MIB)}) == [Result.OK]
        leases = write_leases(await backend.open_writes([key(1)], [MIB]))
        descriptor = leases[0].extent.descriptor
        with pytest.raises(OSError, match="No space left"):
            os.pwrite(descriptor, content(1, MIB), os.pwrite(descriptor, content(1, MIB), 0))
        assert await backend.publish(leases, [0]) == [Result.SIZE_MISMATCH]
        assert await backend.contains([key(0), key(1)]) == [True, False]
        assert await backend.delete([key(0)]) == [MIB]
        assert await store(backend, {key(1): content(1, MIB)}) == [Result.OK]
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


def test_a_disk_that_cannot_be_written_is_refused_at_start(small_place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_place], check=True)
    with pytest.raises(BackendError, match="Read-only file system"):
        asyncio.run(FsBackend(str(small_place)).start())
