"""A writer killed at any moment leaves whole objects and nothing else that can be seen."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvchaos.results import Result
from kvchaos_sidecar.backends.fs import FsBackend
from tests.contract.atomic_writer import SIZE
from tests.contract.steps import content, load, store

ROOT = Path(__file__).parents[2]
KILLS = 25


def kill_a_writer(directory: Path, mode: str, after_s: float) -> None:
    """Starts a writer and kills it some time after its first object."""
    command = [sys.executable, "-m", "tests.contract.atomic_writer", str(directory), mode]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(after_s)
        writer.kill()


async def check_every_object_is_whole(directory: Path) -> int:
    """Returns how many there are, and deletes them."""
    backend = FsBackend(str(directory))
    await backend.start()
    listed = (await backend.list_keys("", 10_000, "")).entries
    keys = [key for key, _ in listed]
    assert {size for _, size in listed} == {SIZE}
    loaded = await load(backend, keys, [SIZE] * len(keys))
    assert loaded == [content(int.from_bytes(key.chunk_hash, "big"), SIZE) for key in keys]
    assert await backend.delete(keys) == [SIZE] * len(keys)
    assert await store(backend, {keys[0]: b"again"}) == [Result.OK]
    assert await backend.delete(keys[:1]) == [5]
    await backend.close()
    return len(keys)


@pytest.mark.parametrize("mode", ["unnamed", "named"])
def test_killed_writers_leave_only_whole_objects(tmp_path: Path, mode: str) -> None:
    moments = random.Random(7)
    for _ in range(KILLS):
        kill_a_writer(tmp_path, mode, moments.uniform(0, 0.02))
        assert asyncio.run(check_every_object_is_whole(tmp_path)) >= 1
        assert [path.name for path in tmp_path.iterdir()] == [".kvchaos-tmp"]
        assert list((tmp_path / ".kvchaos-tmp").iterdir()) == []
