"""Files that begin anew when they are full."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvchaos_sidecar.recording.rotation import RotatingFile


def header(part: int) -> bytes:
    return b"part %d\n" % part


def open_file(directory: Path, max_bytes: int = 40, files: int = 3) -> RotatingFile:
    return RotatingFile(directory / "log", max_bytes, files, header)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_each_part_begins_with_its_header_and_only_the_newest_are_kept(tmp_path: Path) -> None:
    file = open_file(tmp_path)
    for number in range(8):
        file.append(b"line number %02d\n" % number)
    file.close()
    assert contents(tmp_path) == {
        "log": b"part 4\nline number 06\nline number 07\n",
        "log.1": b"part 3\nline number 04\nline number 05\n",
        "log.2": b"part 2\nline number 02\nline number 03\n",
    }


def test_a_single_file_begins_anew_in_its_place(tmp_path: Path) -> None:
    file = open_file(tmp_path, files=1)
    for number in range(3):
        file.append(b"line number %02d\n" % number)
    assert contents(tmp_path) == {"log": b"part 2\nline number 02\n"}


def test_a_line_that_is_larger_than_a_file_has_one_of_its_own(tmp_path: Path) -> None:
    file = open_file(tmp_path)
    file.append(b"x" * 100 + b"\n")
    file.append(b"y\n")
    assert contents(tmp_path) == {"log": b"part 2\ny\n", "log.1": b"part 1\n" + b"x" * 100 + b"\n"}


def test_what_was_there_before_is_moved_away(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"an earlier run\n")
    open_file(tmp_path)
    assert contents(tmp_path) == {"log": b"part 1\n", "log.1": b"an earlier run\n"}


@contextmanager
def limited_file_size() -> Iterator[int]:
    """No file of this process can be larger: writing on fails, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30, limits[1]))
    try:
        yield 30
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_line_that_does_not_fit_on_the_disk_leaves_no_part_of_itself(tmp_path: Path) -> None:
    with limited_file_size() as size:
        file = open_file(tmp_path, max_bytes=1000)
        with pytest.raises(OSError, match="too large"):
            file.append(b"x" * size + b"\n")
        assert contents(tmp_path) == {"log": b"part 1\n"}
        file.append(b"short\n")
    assert contents(tmp_path) == {"log": b"part 1\nshort\n"}


def test_it_closes_its_descriptors(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    file = open_file(tmp_path)
    for _ in range(20):
        file.append(b"line number xx\n")
    assert len(os.listdir("/proc/self/fd")) == before + 1
    file.close()
    file.close()
    assert len(os.listdir("/proc/self/fd")) == before
