from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.sidecar import SidecarProcess
from tests.harness.wire import WireSession


@pytest.fixture(scope="module")
def shared_sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    """A daemon over a directory, without faults, for tests that leave it as they found it."""
    store = tmp_path_factory.mktemp("store")
    with SidecarProcess({"type": "fs", "base_path": str(store)}) as process:
        yield process


@pytest.fixture(params=["handoff", "inline"])
def session(request: pytest.FixtureRequest, shared_sidecar: SidecarProcess) -> Iterator[WireSession]:
    """A session on that daemon, over each transport."""
    with WireSession(shared_sidecar.cache_target) as opened:
        if request.param == "handoff":
            opened.connect_handoff()
        yield opened


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    path.mkdir()
    return path


@pytest.fixture
def sidecar(store_path: Path) -> Iterator[SidecarProcess]:
    """A daemon of the test's own, over a directory, without faults."""
    with SidecarProcess({"type": "fs", "base_path": str(store_path)}) as process:
        yield process
