"""A store that hangs: everything that does not need it goes on, and what it yields late is given back."""

import asyncio
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.harness.in_process import InProcessSidecar
from tests.harness.waiting import eventually
from tests.harness.wire import INLINE, TIMEOUT_S, WireSession, close_all, make_keys

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos.v1 import control_pb2, control_pb2_grpc
from kvchaos_sidecar.app import CACHE_SERVICE
from kvchaos_sidecar.backends.contract import ReadLease
from kvchaos_sidecar.backends.fs import FsBackend

LOADS = 50


class HangingStore(FsBackend):
    """A directory whose reads and probes wait while it hangs."""

    def __init__(self, base_path: str) -> None:
        super().__init__(base_path)
        self._runs = asyncio.Event()
        self._runs.set()
        self.waiting = 0

    async def hang(self) -> None:
        self._runs.clear()

    async def recover(self) -> None:
        self._runs.set()

    async def probe(self) -> None:
        await self._runs.wait()
        await super().probe()

    async def open_reads(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[ReadLease | Result]:
        self.waiting += 1
        try:
            await self._runs.wait()
        finally:
            self.waiting -= 1
        return await super().open_reads(keys, sizes)


@pytest.fixture
def store(store_path: Path) -> HangingStore:
    return HangingStore(str(store_path))


@pytest.fixture
def daemon(store: HangingStore) -> Iterator[InProcessSidecar]:
    with InProcessSidecar(store) as sidecar:
        yield sidecar


@pytest.fixture
def session(daemon: InProcessSidecar) -> Iterator[WireSession]:
    with WireSession(daemon.cache_target).connect_handoff() as opened:
        yield opened


def files_open_in(path: Path) -> int:
    """Descriptors of this process, and so of the daemon, for objects."""
    targets = (os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
    return sum(os.path.dirname(target) == str(path) for target in targets)


def http_status(daemon: InProcessSidecar, path: str) -> int:
    try:
        with urllib.request.urlopen(
            f"http://{daemon.sidecar.http.address}{path}", timeout=TIMEOUT_S
        ) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def refusal_of_lookup(session: WireSession) -> str:
    try:
        session.lookup([])
    except grpc.RpcError as error:
        return str(error)
    return ""


def test_control_and_probes_answer_while_every_load_hangs(
    daemon: InProcessSidecar, store: HangingStore, session: WireSession
) -> None:
    keys = make_keys(1)
    daemon.run(store.hang())
    loads = [session.stub.Load.future(session.load_request(keys, 1, number)) for number in range(LOADS)]
    eventually(lambda: store.waiting == LOADS, "every load hangs")
    with grpc.insecure_channel(daemon.control_target) as channel:
        control = control_pb2_grpc.ControlStub(channel)
        status = control.GetStatus(control_pb2.GetStatusRequest(), timeout=TIMEOUT_S)
        assert [opened.client_name for opened in status.sessions] == ["wire"]
        assert not status.backend.healthy
        assert control.SetFaults(control_pb2.SetFaultsRequest(rate=0.5), timeout=TIMEOUT_S).changed
        assert control.Halt(control_pb2.HaltRequest(), timeout=TIMEOUT_S).fault_inject.halted
        assert control.Resume(control_pb2.ResumeRequest(), timeout=TIMEOUT_S).changed
    assert session.lookup(keys) == [Result.NOT_FOUND]
    assert http_status(daemon, "/healthz") == 200
    assert http_status(daemon, "/metrics") == 200
    assert not any(load.done() for load in loads)
    daemon.run(store.recover())
    assert all(list(load.result(TIMEOUT_S).results) == [Result.NOT_FOUND] for load in loads)


def test_a_store_that_does_not_answer_is_reported_and_so_is_its_recovery(
    daemon: InProcessSidecar, store: HangingStore, session: WireSession
) -> None:
    with grpc.insecure_channel(daemon.cache_target) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=CACHE_SERVICE)

        def serving() -> bool:
            answer = health.Check(request, timeout=TIMEOUT_S)
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

        assert serving()
        daemon.run(store.hang())
        eventually(lambda: not serving())
        assert "did not answer" in session.status().detail
        assert http_status(daemon, "/readyz") == 503
        assert daemon.value("kvchaos_backend_up", backend="fs") == 0
        daemon.run(store.recover())
        eventually(serving)
        assert session.status().healthy
        assert http_status(daemon, "/readyz") == 200


def test_a_load_that_its_client_cancels_holds_nothing(
    daemon: InProcessSidecar, store: HangingStore, session: WireSession, store_path: Path
) -> None:
    keys = make_keys(3)
    session.store_objects(keys, [b"x"] * 3)
    daemon.run(store.hang())
    load = session.stub.Load.future(session.load_request(keys, 1, 2))
    eventually(lambda: store.waiting == 1)
    load.cancel()
    eventually(lambda: store.waiting == 0, "the call is cancelled")
    daemon.run(store.recover())
    assert session.load_objects(keys, 1, 2) == {0: b"x", 1: b"x", 2: b"x"}
    eventually(lambda: files_open_in(store_path) == 0)


def test_what_comes_after_the_client_gave_up_goes_straight_back(
    daemon: InProcessSidecar, store: HangingStore, session: WireSession, store_path: Path
) -> None:
    keys = make_keys(3)
    session.store_objects(keys, [b"x"] * 3)
    daemon.run(store.hang())
    request = session.load_request(keys, 1, 2)
    given_up = session.stub.Load.future(request)
    eventually(lambda: store.waiting == 1)
    assert session.handoff is not None
    session.handoff.release(2)

    later = session.stub.Load.future(request)

    def id_is_free() -> bool:
        nonlocal later
        if later.done():
            later = session.stub.Load.future(request)
        return store.waiting == 2

    eventually(id_is_free, "the daemon has read the release")
    daemon.run(store.recover())
    assert "given up" in str(given_up.exception(TIMEOUT_S))
    assert later.result(TIMEOUT_S).descriptor_count == 3
    assert session.status().grants == 3
    session.handoff.release(2)
    eventually(lambda: session.status().grants == 0)
    close_all(session.handoff.receive_all(3))
    assert files_open_in(store_path) == 0


def test_what_comes_after_the_session_ended_goes_straight_back(
    daemon: InProcessSidecar, store: HangingStore, store_path: Path
) -> None:
    keys = make_keys(3)
    with WireSession(daemon.cache_target) as session:
        session.store_objects(keys, [b"x"] * 3)
        daemon.run(store.hang())
        load = session.stub.Load.future(session.load_request(keys, 1, 2, INLINE))
        eventually(lambda: store.waiting == 1)
        session.stream.cancel()
        eventually(lambda: daemon.value("kvchaos_sessions") == 0)
        daemon.run(store.recover())
        assert "given up" in str(load.exception(TIMEOUT_S))
        assert files_open_in(store_path) == 0


def test_a_daemon_that_ends_takes_no_new_calls_and_waits_for_no_load_that_hangs(store: HangingStore) -> None:
    daemon = InProcessSidecar(store)
    with WireSession(daemon.cache_target) as session:
        daemon.run(store.hang())
        load = session.stub.Load.future(session.load_request(make_keys(1), 1, 1, INLINE))
        eventually(lambda: store.waiting == 1)
        ending = threading.Thread(target=daemon.close)
        ending.start()
        eventually(lambda: "shutting down" in refusal_of_lookup(session), "new calls are refused")
        assert not load.done()
        ending.join()
        assert load.exception(TIMEOUT_S) is not None
