"""The names of a directory, read once for all pages of a listing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvchaos_sidecar.backends.directory_names import DirectoryNames


@pytest.fixture
def names(tmp_path: Path) -> DirectoryNames:
    for name in ("b", "d", "a", "c"):
        (tmp_path / name).touch()
    return DirectoryNames(os.fsencode(tmp_path))


def test_names_follow_in_order(names: DirectoryNames) -> None:
    assert list(names.after(b"")) == [b"a", b"b", b"c", b"d"]
    assert list(names.after(b"b")) == [b"c", b"d"]
    assert list(names.after(b"bb")) == [b"c", b"d"]
    assert list(names.after(b"d")) == []


def test_a_listing_goes_on_with_what_its_first_page_read(names: DirectoryNames, tmp_path: Path) -> None:
    names.after(b"")
    (tmp_path / "bb").touch()
    assert list(names.after(b"b")) == [b"c", b"d"]
    assert list(names.after(b"")) == [b"a", b"b", b"bb", b"c", b"d"]


def test_a_page_after_the_names_were_forgotten_reads_again(names: DirectoryNames, tmp_path: Path) -> None:
    names.after(b"")
    assert names.are_kept
    names.forget()
    assert not names.are_kept
    (tmp_path / "bb").touch()
    assert list(names.after(b"b")) == [b"bb", b"c", b"d"]


def test_a_directory_that_is_gone_is_an_error_each_time(tmp_path: Path) -> None:
    names = DirectoryNames(os.fsencode(tmp_path / "gone"))
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            names.after(b"")
    assert not names.are_kept
