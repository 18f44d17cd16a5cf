"""Telling memory from devices."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kvchaos_sidecar.backends.file_systems import is_in_memory


def test_what_the_kernel_says_decides(tmp_path: Path) -> None:
    """Against coreutils, which asks statfs(2) instead."""
    for directory in (tmp_path, Path("/dev/shm"), Path("/proc"), Path("/")):
        command = ["stat", "--file-system", "--format=%T", directory]
        kind = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        assert is_in_memory(str(directory)) == (kind in ("tmpfs", "ramfs")), (directory, kind)


def test_a_directory_below_is_what_its_file_system_is() -> None:
    assert is_in_memory("/dev/shm/.") == is_in_memory("/dev/shm")


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        is_in_memory(str(tmp_path / "missing"))
