"""However a session ends, the daemon gives back what it held, and nothing half-written is visible."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from tests.harness.held_client import MARK, OBJECT_BYTES, STORED, UNFINISHED
from tests.harness.in_process import InProcessSidecar
from tests.harness.processes import free_port
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually
from tests.harness.wire import INLINE, TIMEOUT_S, WireSession, make_keys, pieces_of

from kvchaos.results import Result
from kvchaos.v1 import cache_pb2
from kvchaos_sidecar.backends.memory import MemoryBackend
from kvchaos_sidecar.clock import ManualClock

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def memory() -> MemoryBackend:
    return MemoryBackend(1 << 20)


@contextmanager
def held_client(target: str, transport: str) -> Iterator[subprocess.Popen[str]]:
    """A client process that holds locks, a load and a half-written store."""
    command = [sys.executable, "-m", "tests.harness.held_client", target, transport]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == MARK
            yield process
        finally:
            process.kill()


def held(sidecar: SidecarProcess) -> tuple[float, float, float]:
    metrics = sidecar.metrics()
    return tuple(metrics.value(f"kvchaos_{name}") for name in ("sessions", "locks", "grants"))  # type: ignore[return-value]


def objects_open(sidecar: SidecarProcess, store_path: Path) -> int:
    """Descriptors that the daemon has open in its store, without the directory itself."""
    links = Path(f"/proc/{sidecar.process.pid}/fd").iterdir()
    return sum(os.path.dirname(os.readlink(link)) == str(store_path) for link in links)


@pytest.mark.parametrize("transport", ["handoff", "inline"])
def test_a_client_killed_in_mid_load_and_mid_store_leaves_nothing(
    sidecar: SidecarProcess, store_path: Path, transport: str
) -> None:
    with WireSession(sidecar.cache_target) as session:
        session.store_objects(STORED, [os.urandom(OBJECT_BYTES)] * len(STORED))
    eventually(lambda: held(sidecar) == (0, 0, 0))
    files = sorted(os.listdir(store_path))
    with held_client(sidecar.cache_target, transport) as client:
        assert held(sidecar) == (1, len(STORED), len(STORED) + len(UNFINISHED))
        assert objects_open(sidecar, store_path) == len(STORED) + len(UNFINISHED)
        client.send_signal(signal.SIGKILL)
        eventually(lambda: held(sidecar) == (0, 0, 0), "everything is given back")
        eventually(lambda: objects_open(sidecar, store_path) == 0, "everything is closed")
    with WireSession(sidecar.cache_target) as session:
        assert session.lookup(UNFINISHED) == [Result.NOT_FOUND] * len(UNFINISHED)
        assert session.lookup(STORED) == [Result.OK] * len(STORED)
    assert sorted(os.listdir(store_path)) == files


def test_a_clean_close_gives_everything_back(sidecar: SidecarProcess, store_path: Path) -> None:
    keys = make_keys(3)
    with WireSession(sidecar.cache_target).connect_handoff() as session:
        session.store_objects(keys, [b"x"] * 3)
        session.lookup(keys)
        session.load(keys, 1, 2)
        session.prepare(make_keys(2), 1, 3)
        assert held(sidecar) == (1, 3, 5)
        close = cache_pb2.CloseSessionRequest(session_id=session.id)
        session.stub.CloseSession(close, timeout=TIMEOUT_S)
        assert held(sidecar) == (0, 0, 0)
        eventually(lambda: objects_open(sidecar, store_path) == 0, "everything is closed")
        assert list(session.stream) == []
        session.stub.CloseSession(close, timeout=TIMEOUT_S)
    assert sidecar.metrics().value("kvchaos_sessions_ended_total", reason="closed") == 1


def test_a_dropped_handoff_connection_ends_the_session(sidecar: SidecarProcess) -> None:
    keys = make_keys(1)
    with WireSession(sidecar.cache_target).connect_handoff() as session:
        session.store_objects(keys, [b"x"])
        session.lookup(keys)
        assert session.handoff is not None
        session.handoff.close()
        eventually(lambda: held(sidecar) == (0, 0, 0))
        with pytest.raises(grpc.RpcError) as error:
            session.lookup(keys)
        assert "open a new one" in str(error.value)
    assert sidecar.metrics().value("kvchaos_sessions_ended_total", reason="handoff_lost") == 1


@pytest.mark.slow
def test_a_client_that_falls_silent_loses_its_session(store_path: Path) -> None:
    listen = {"cache": f"127.0.0.1:{free_port()}"}
    with SidecarProcess({"type": "fs", "base_path": str(store_path)}, listen=listen) as sidecar:
        with WireSession(sidecar.cache_target) as session:
            session.store_objects(STORED, [os.urandom(OBJECT_BYTES)] * len(STORED))
        with held_client(sidecar.cache_target, "inline") as client:
            assert held(sidecar)[0] == 1
            client.send_signal(signal.SIGSTOP)
            eventually(lambda: held(sidecar) == (0, 0, 0), "everything is given back", timeout_s=60)


def test_the_handoff_connection_ends_with_the_session(sidecar: SidecarProcess) -> None:
    with WireSession(sidecar.cache_target).connect_handoff() as session:
        session.stream.cancel()
        assert session.handoff is not None
        assert session.handoff.at_end()


def test_a_daemon_that_ends_tells_its_clients_and_exits_with_0(sidecar: SidecarProcess) -> None:
    with WireSession(sidecar.cache_target).connect_handoff() as session:
        sidecar.process.signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError) as error:
            list(session.stream)
        assert isinstance(error.value, grpc.Call)
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        assert sidecar.process.wait(15) == 0


def test_a_daemon_that_was_killed_forgets_its_sessions_and_starts_on_the_same_sockets(
    sidecar: SidecarProcess,
) -> None:
    keys = make_keys(2)
    unfinished = make_keys(1)
    with WireSession(sidecar.cache_target) as session:
        session.store_objects(keys, [b"one", b"two"])
        session.prepare(unfinished, 3, 2, INLINE)
        session.write(pieces_of(0, b"tri"), 2)
        sidecar.kill()
        sidecar.restart()
        with pytest.raises(grpc.RpcError):
            session.commit([3], 2)
    with WireSession(sidecar.cache_target).connect_handoff() as session:
        assert session.load_objects(keys, 3) == {0: b"one", 1: b"two"}
        assert session.lookup(unfinished) == [Result.NOT_FOUND]


def test_grants_that_nobody_uses_expire(memory: MemoryBackend) -> None:
    clock, keys = ManualClock(), make_keys(2)
    daemon = InProcessSidecar(memory, clock, limits={"grant_ttl": "60s", "lock_ttl": "1h"})
    with daemon as sidecar, WireSession(sidecar.cache_target) as session:
        session.store_objects(keys, [b"x"] * 2)
        session.lookup(keys)
        session.load(keys, 1, 2, INLINE)
        session.prepare(make_keys(3), 1, 3, INLINE)
        clock.advance(59)
        assert session.status().grants == 5
        clock.advance(1)
        eventually(lambda: session.status().grants == 0)
        assert session.status().locks == 2
        with pytest.raises(grpc.RpcError) as error:
            list(session.read(2))
        assert "expired" in str(error.value)
        with pytest.raises(grpc.RpcError) as error:
            session.commit([1, 1, 1], 3)
        assert "expired" in str(error.value)
        assert sidecar.value("kvchaos_grant_expirations_total") == 5


def test_locks_that_nobody_renews_expire(memory: MemoryBackend) -> None:
    clock, keys = ManualClock(), make_keys(2)
    daemon = InProcessSidecar(memory, clock, limits={"lock_ttl": "10m"})
    with daemon as sidecar, WireSession(sidecar.cache_target) as session:
        session.store_objects(keys, [b"x"] * 2)
        session.lookup(keys)
        clock.advance(400)
        session.lookup(keys[:1])
        clock.advance(200)
        eventually(lambda: session.status().locks == 2)
        assert session.unlock(keys) == 1
        assert sidecar.value("kvchaos_lock_expirations_total") == 1


def test_a_transfer_that_goes_on_does_not_expire(memory: MemoryBackend) -> None:
    clock, keys = ManualClock(), make_keys(1)
    daemon = InProcessSidecar(memory, clock, limits={"grant_ttl": "60s"})
    with daemon as sidecar, WireSession(sidecar.cache_target) as session:
        session.prepare(keys, 30, 1, INLINE)
        for piece in pieces_of(0, bytes(range(30)), 10):
            clock.advance(50)
            session.write([piece], 1)
        assert session.commit([30]) == [Result.OK]
        assert session.load_objects(keys, 30, 2) == {0: bytes(range(30))}


def test_there_are_no_more_sessions_than_allowed(memory: MemoryBackend) -> None:
    with InProcessSidecar(memory, limits={"max_sessions": 1}) as sidecar:
        with WireSession(sidecar.cache_target):
            with pytest.raises(grpc.RpcError) as error:
                WireSession(sidecar.cache_target)
            assert "limits.max_sessions" in str(error.value)
        eventually(lambda: sidecar.value("kvchaos_sessions") == 0)
        WireSession(sidecar.cache_target).close()


@pytest.mark.parametrize("name", ["", "x" * 201, "two\nlines"])
def test_a_client_name_that_does_not_fit_a_log_line_is_refused(
    shared_sidecar: SidecarProcess, name: str
) -> None:
    with pytest.raises(grpc.RpcError) as error:
        WireSession(shared_sidecar.cache_target, name)
    assert "client_name" in str(error.value)
