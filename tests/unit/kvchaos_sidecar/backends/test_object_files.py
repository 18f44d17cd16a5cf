"""What is and what is not an object in a directory that others use too."""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.filenames import to_file_name
from kvchaos_sidecar.backends.object_files import ObjectFiles

KEY = ObjectKey(b"\x01\x02", "a/model", 1)


@pytest.fixture
def files(tmp_path: Path) -> ObjectFiles:
    return ObjectFiles(str(tmp_path / "l2"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the object's file belongs."""
    name = to_file_name(KEY)
    assert name is not None
    return tmp_path / "l2" / os.fsdecode(name)


def make_link(path: Path) -> None:
    path.with_name("elsewhere").write_bytes(b"bytes")
    path.symlink_to("elsewhere")


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [make_link, make_dangling_link, make_fifo, make_directory])
def test_only_regular_files_are_objects(files: ObjectFiles, path: Path, make: Callable[[Path], None]) -> None:
    make(path)
    assert not files.exists(KEY)
    assert files.open(KEY, 5) is Result.NOT_FOUND
    assert files.delete(KEY) is Result.NOT_FOUND
    assert list(files.entries(b"")) == []
    assert os.path.lexists(path)


def test_an_object_is_opened_for_reading_only(files: ObjectFiles, path: Path) -> None:
    path.write_bytes(b"bytes")
    descriptor = files.open(KEY, 5)
    assert not isinstance(descriptor, Result)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(descriptor, b"x")
    os.close(descriptor)


def test_entries_come_in_name_order_with_sizes(files: ObjectFiles, path: Path) -> None:
    keys = [KEY._replace(kv_rank=rank) for rank in (3, 1, 2)]
    for size, key in enumerate(keys, 1):
        name = to_file_name(key)
        assert name is not None
        path.with_name(os.fsdecode(name)).write_bytes(b"x" * size)
    path.with_name("foreign.data").write_bytes(b"x")
    entries = list(files.entries(b""))
    assert [(key.kv_rank, size) for _, key, size in entries] == [(1, 2), (2, 3), (3, 1)]
    assert list(files.entries(entries[0][0])) == entries[1:]


def test_a_process_without_descriptors_gets_a_result_and_a_warning(
    files: ObjectFiles, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(b"bytes")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        with caplog.at_level(logging.WARNING):
            assert files.open(KEY, 5) is Result.IO_ERROR
            assert files.create(KEY._replace(kv_rank=2), 5) is Result.IO_ERROR
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "Too many open files" in caplog.text


def test_a_directory_that_is_gone_fails_stores_and_misses_loads(files: ObjectFiles, path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    assert not files.exists(KEY)
    assert files.open(KEY, 5) is Result.NOT_FOUND
    assert files.create(KEY, 5) is Result.IO_ERROR
