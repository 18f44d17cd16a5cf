"""A client and a sidecar of different versions: refused at once, and both are named."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from tests.harness import other_version
from tests.harness.processes import ManagedProcess
from tests.harness.sidecar import SidecarProcess

from kvchaos import __version__
from kvchaos.client import L2Client
from kvchaos.errors import VersionMismatch
from kvchaos.protocol import PROTOCOL_VERSION
from kvchaos.v1 import cache_pb2, cache_pb2_grpc

NEWER = PROTOCOL_VERSION + 6
PATIENCE_S = 60.0


@pytest.fixture
def directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="kvc-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@contextmanager
def daemon_of(directory: Path, protocol: int, version: str) -> Iterator[str]:
    """A process of another version; its address."""
    command = [sys.executable, "-m", other_version.__name__, str(directory), str(protocol), version]
    with ManagedProcess(command, directory / "log") as process:
        process.wait_until(lambda: other_version.SERVING in process.log(), 30.0, "the other version")
        yield f"unix:{directory}/cache.sock"


@pytest.mark.parametrize("protocol", [NEWER, 0], ids=["newer", "older"])
def test_a_sidecar_refuses_a_client_of_another_version_and_names_both(
    sidecar: SidecarProcess, protocol: int
) -> None:
    request = cache_pb2.OpenSessionRequest(
        client_name="other", client_version="9.9.9", protocol_version=protocol
    )
    with grpc.insecure_channel(sidecar.cache_target) as channel, pytest.raises(grpc.RpcError) as refused:
        next(cache_pb2_grpc.L2CacheStub(channel).OpenSession(request, timeout=PATIENCE_S))

    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    upgrade = (
        "sidecar to kvchaos 9.9.9" if protocol else f"cache server's environment to kvchaos {__version__}"
    )
    assert refused.value.details() == (
        f"the client is kvchaos 9.9.9 with protocol version {protocol}, the sidecar is kvchaos {__version__} "
        f"with protocol version {PROTOCOL_VERSION}; install the same version on both sides: "
        f"upgrade the {upgrade}"
    )
    assert sidecar.metrics().value("kvchaos_sessions") == 0


@pytest.mark.parametrize("protocol", [NEWER, 0], ids=["newer", "older"])
def test_a_client_leaves_a_sidecar_of_another_version_and_names_both(directory: Path, protocol: int) -> None:
    with (
        daemon_of(directory, protocol, "9.9.9") as target,
        L2Client(target, "test", timeout_s=PATIENCE_S) as client,
    ):
        assert not client.wait_connected()
        assert isinstance(client.cause, VersionMismatch)
        assert f"the client is kvchaos {__version__} with protocol version {PROTOCOL_VERSION}" in str(
            client.cause
        )
        assert f"the sidecar is kvchaos 9.9.9 with protocol version {protocol}" in str(client.cause)


def test_a_refusal_by_the_sidecar_is_the_same_error(
    sidecar: SidecarProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvchaos.session.PROTOCOL_VERSION", NEWER)
    with L2Client(sidecar.cache_target, "test", timeout_s=PATIENCE_S) as client:
        assert not client.wait_connected()
        assert isinstance(client.cause, VersionMismatch)
        assert f"with protocol version {NEWER}" in str(client.cause)


def test_the_control_address_is_not_taken_for_another_version(sidecar: SidecarProcess) -> None:
    with L2Client(sidecar.control_target, "test", timeout_s=PATIENCE_S) as client:
        assert not client.wait_connected()
        assert "give the address of a sidecar's cache listener (not the control listener)" in str(
            client.cause
        )


def test_the_command_says_that_the_sidecar_is_another_version_when_it_does_not_know_a_call(
    directory: Path,
) -> None:
    from tests.integration.test_command import run

    with daemon_of(directory, PROTOCOL_VERSION, "9.9.9") as target:
        text = run("status", "--target", target, code=1)
    assert f"does not know this call of kvchaos {__version__}" in text
