"""Files that appear whole or not at all, with and without a temporary name."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kvchaos_sidecar.backends.atomic_files import AtomicFiles, PendingFile


class Place:
    """A directory with AtomicFiles in it."""

    def __init__(self, path: Path, unnamed: bool) -> None:
        self.path = path
        self.temporary = path / "temporary"
        self.temporary.mkdir()
        self.files = self.open()
        if unnamed and not self.files.unnamed:
            pytest.skip("this file system has no unnamed files")
        self.files.unnamed = unnamed

    def open(self) -> AtomicFiles:
        return AtomicFiles(os.fsencode(self.path) + b"/", os.fsencode(self.temporary), reserve=True)

    def pending(self, data: bytes) -> PendingFile:
        pending = self.files.create(len(data))
        os.pwrite(pending.descriptor, data, 0)
        return pending

    def target(self, name: str) -> bytes:
        return os.fsencode(self.path / name)

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self.path.iterdir() if entry != self.temporary)


@pytest.fixture(params=[True, False], ids=["unnamed", "named"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


def test_a_published_file_is_whole_and_leaves_no_temporary_name(place: Place) -> None:
    pending = place.pending(b"bytes")
    assert place.names() == []
    assert pending.publish(place.target("object"), 5)
    assert (place.path / "object").read_bytes() == b"bytes"
    assert list(place.temporary.iterdir()) == []


def test_a_file_that_is_there_is_not_replaced(place: Place) -> None:
    (place.path / "object").write_bytes(b"first")
    with pytest.raises(FileExistsError):
        place.pending(b"other").publish(place.target("object"), 5)
    assert (place.path / "object").read_bytes() == b"first"
    assert list(place.temporary.iterdir()) == []


@pytest.mark.parametrize("size", [0, 4, 6])
def test_a_file_of_another_size_is_not_published(place: Place, size: int) -> None:
    assert not place.pending(b"bytes").publish(place.target("object"), size)
    assert place.names() == []
    assert list(place.temporary.iterdir()) == []


def test_a_pending_file_ends_once(place: Place) -> None:
    published = place.pending(b"bytes")
    published.publish(place.target("object"), 5)
    with pytest.raises(ValueError, match="ended"):
        published.publish(place.target("again"), 5)
    published.discard()
    discarded = place.pending(b"bytes")
    discarded.discard()
    discarded.discard()
    with pytest.raises(ValueError, match="ended"):
        discarded.publish(place.target("again"), 5)
    assert place.names() == ["object"]
    assert list(place.temporary.iterdir()) == []


def test_setting_room_aside_does_not_change_the_size(place: Place) -> None:
    pending = place.files.create(1 << 20)
    assert os.fstat(pending.descriptor).st_size == 0
    pending.discard()


def test_files_get_the_mode_that_the_umask_leaves(place: Place) -> None:
    before = os.umask(0o027)
    try:
        pending = place.pending(b"bytes")
    finally:
        os.umask(before)
    pending.publish(place.target("object"), 5)
    assert stat.S_IMODE((place.path / "object").stat().st_mode) == 0o640


def test_opening_removes_what_a_killed_process_left(place: Place) -> None:
    (place.temporary / "left").write_bytes(b"partial")
    (place.temporary / "directory").mkdir()
    place.open()
    assert [entry.name for entry in place.temporary.iterdir()] == ["directory"]


def test_opening_leaves_the_pending_files_of_others_alone(place: Place) -> None:
    pending = place.pending(b"bytes")
    place.open()
    assert pending.publish(place.target("object"), 5)
    assert (place.path / "object").read_bytes() == b"bytes"


def test_opening_leaves_nothing_behind(place: Place) -> None:
    place.open()
    assert place.names() == []
    assert list(place.temporary.iterdir()) == []


def test_a_directory_that_is_gone_is_an_error(place: Place) -> None:
    place.temporary.rmdir()
    place.path.rename(place.path.with_name("moved"))
    with pytest.raises(FileNotFoundError):
        place.files.create(5)
    with pytest.raises(FileNotFoundError):
        place.open()
    place.path.mkdir()
