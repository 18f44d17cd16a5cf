from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.sidecar import SidecarProcess


@pytest.fixture
def fs_sidecar(tmp_path: Path) -> Iterator[SidecarProcess]:
    """A daemon over a directory, without faults."""
    with SidecarProcess({"type": "fs", "base_path": str(tmp_path / "l2")}) as process:
        yield process
