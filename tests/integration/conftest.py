import shutil
import subprocess
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


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for kvchaos-test and localhost, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subject = ["-subj", "/CN=kvchaos-test", "-addext", "subjectAltName=DNS:kvchaos-test,DNS:localhost"]
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key
