"""The client against a daemon that does not behave. What a sound daemon does is in tests/integration."""

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.harness.scripted_daemon import ScriptedDaemon, open_descriptors
from tests.harness.waiting import eventually

from kvchaos.backoff import Backoff
from kvchaos.client import L2Client
from kvchaos.errors import (
    ConfigError,
    DeadlineExceeded,
    InvalidKeyError,
    RequestRefused,
    SessionEnded,
    SidecarError,
    SidecarUnavailable,
)
from kvchaos.keeper import SessionListener
from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos.session import Transport
from kvchaos.v1 import cache_pb2, common_pb2

OK, DROPPED = common_pb2.RESULT_OK, common_pb2.RESULT_DROPPED
KEYS = [ObjectKey(bytes([number]) * 8, "model", 1) for number in range(3)]
QUICK = Backoff(first_s=0.01, max_s=0.02)


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def daemon(directory: Path) -> Iterator[ScriptedDaemon]:
    scripted = ScriptedDaemon(directory)
    yield scripted
    scripted.close()


@pytest.fixture
def client(daemon: ScriptedDaemon) -> Iterator[L2Client]:
    with L2Client(daemon.target, "test", timeout_s=10.0, backoff=QUICK) as connected:
        assert connected.wait_connected()
        yield connected


@pytest.fixture
def file() -> Iterator[int]:
    with tempfile.TemporaryFile() as opened:
        opened.write(b"aaaabbbbcccc")
        opened.flush()
        yield opened.fileno()


def granting(daemon: ScriptedDaemon, file: int, lengths: tuple[int, ...] = (4, 4, 4), **changed: Any) -> Any:
    """Answers a Load of three keys with grants in one file, which it sends first."""

    def load(request: cache_pb2.LoadRequest, context: grpc.ServicerContext) -> cache_pb2.LoadResponse:
        daemon.send_descriptors(request.request_id, [file])
        extents = cache_pb2.Extents(
            position=[0, 1, 2], descriptor=[0, 0, 0], offset=[0, 4, 8], length=lengths
        )
        answer = {"results": [OK, OK, OK], "extents": extents, "descriptor_count": 1, **changed}
        return cache_pb2.LoadResponse(**answer)

    return load


def test_a_load_arrives_and_is_released(client: L2Client, daemon: ScriptedDaemon, file: int) -> None:
    daemon.answers["Load"] = granting(daemon, file)
    before = open_descriptors()
    buffers = [bytearray(4) for _ in KEYS]
    assert client.load(KEYS, buffers).result() == [Result.OK] * 3
    assert buffers == [b"aaaa", b"bbbb", b"cccc"]
    assert list(daemon.releases.get(timeout=10).failed_position) == []
    assert open_descriptors() == before
    assert client.facts is not None
    assert client.facts.transport is Transport.HANDOFF


def test_an_object_of_another_length_is_a_miss_and_spoils_nothing(
    client: L2Client, daemon: ScriptedDaemon, file: int
) -> None:
    daemon.answers["Load"] = granting(daemon, file, lengths=(4, 5, 3))
    memory = bytearray(b"." * 12)
    buffers = [memoryview(memory)[start : start + 4] for start in (0, 4, 8)]
    assert client.load(KEYS, buffers).result() == [Result.OK, Result.SIZE_MISMATCH, Result.SIZE_MISMATCH]
    assert bytes(memory) == b"aaaa........"
    assert list(daemon.releases.get(timeout=10).failed_position) == [1, 2]


def test_a_truncated_object_fails_alone(client: L2Client, daemon: ScriptedDaemon, file: int) -> None:
    os.ftruncate(file, 10)
    daemon.answers["Load"] = granting(daemon, file)
    results = client.load(KEYS, [bytearray(4) for _ in KEYS]).result()
    assert results == [Result.OK, Result.OK, Result.IO_ERROR]
    assert list(daemon.releases.get(timeout=10).failed_position) == [2]


def test_dropped_destinations_are_poisoned_and_no_other(
    client: L2Client, daemon: ScriptedDaemon, file: int
) -> None:
    def load(request: cache_pb2.LoadRequest, context: grpc.ServicerContext) -> cache_pb2.LoadResponse:
        daemon.send_descriptors(request.request_id, [file])
        extents = cache_pb2.Extents(position=[0, 2], descriptor=[0, 0], offset=[0, 8], length=[4, 4])
        poison = common_pb2.Poison(kind=common_pb2.Poison.KIND_NAN)
        return cache_pb2.LoadResponse(
            results=[OK, DROPPED, OK], extents=extents, descriptor_count=1, poison=poison
        )

    daemon.answers["Load"] = load
    buffers = [bytearray(4) for _ in KEYS]
    assert client.load(KEYS, buffers).result() == [Result.OK, Result.DROPPED, Result.OK]
    assert buffers == [b"aaaa", b"\xff" * 4, b"cccc"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"results": [OK, OK]}, "answered for 2 keys; expected 3"),
        ({"results": [OK, OK, DROPPED]}, "not those"),
        ({"extents": cache_pb2.Extents()}, "not those"),
        ({"descriptor_count": 0}, "beyond the 0 sent"),
    ],
)
def test_a_contradictory_answer_fails_the_load_and_leaks_nothing(
    client: L2Client, daemon: ScriptedDaemon, file: int, changed: dict[str, Any], message: str
) -> None:
    daemon.answers["Load"] = granting(daemon, file, **changed)
    before = open_descriptors()
    with pytest.raises(SidecarError, match=message):
        client.load(KEYS, [bytearray(4) for _ in KEYS]).result()
    daemon.releases.get(timeout=10)
    assert open_descriptors() == before


def test_descriptors_that_never_come_fail_the_load_in_time(
    client: L2Client, daemon: ScriptedDaemon, file: int
) -> None:
    daemon.answers["Load"] = granting(daemon, file, descriptor_count=2)
    before = open_descriptors()
    with pytest.raises(SidecarUnavailable, match="expected descriptors 0 to 1, got"):
        client.load(KEYS, [bytearray(4) for _ in KEYS], timeout_s=0.3).result()
    daemon.releases.get(timeout=10)
    assert open_descriptors() == before


def test_an_answer_that_comes_too_late_leaves_nothing_open(
    client: L2Client, daemon: ScriptedDaemon, file: int
) -> None:
    go_on = threading.Event()

    def late(request: cache_pb2.LoadRequest, context: grpc.ServicerContext) -> cache_pb2.LoadResponse:
        go_on.wait()
        return granting(daemon, file)(request, context)

    daemon.answers["Load"] = late
    before = open_descriptors()
    buffers = [bytearray(4) for _ in KEYS]
    with pytest.raises(DeadlineExceeded):
        client.load(KEYS, buffers, timeout_s=0.2).result()
    assert list(daemon.releases.get(timeout=10).failed_position) == [0, 1, 2]
    go_on.set()
    daemon.releases.get(timeout=10)
    assert open_descriptors() == before
    assert buffers == [bytes(4)] * 3


def test_grants_that_did_not_last_do_not_count(directory: Path, file: int) -> None:
    daemon = ScriptedDaemon(directory, grant_ttl_s=1e-9)
    daemon.answers["Load"] = granting(daemon, file)
    with L2Client(daemon.target, "test") as client:
        client.wait_connected()
        assert client.load(KEYS, [bytearray(4) for _ in KEYS]).result() == [Result.TIMED_OUT] * 3
    daemon.close()


def test_a_handoff_connection_lost_in_mid_load_fails_it_and_a_new_session_is_opened(
    client: L2Client, daemon: ScriptedDaemon, file: int
) -> None:
    def cut(request: cache_pb2.LoadRequest, context: grpc.ServicerContext) -> cache_pb2.LoadResponse:
        daemon.connection().shutdown(socket.SHUT_RDWR)
        return cache_pb2.LoadResponse(
            results=[OK, OK, OK],
            extents=cache_pb2.Extents(
                position=[0, 1, 2], descriptor=[0, 0, 0], offset=[0, 4, 8], length=[4, 4, 4]
            ),
            descriptor_count=1,
        )

    daemon.answers["Load"] = cut
    with pytest.raises(SidecarError):
        client.load(KEYS, [bytearray(4) for _ in KEYS]).result()
    eventually(lambda: client.sessions_opened == 2 and client.connected)
    daemon.answers["Load"] = granting(daemon, file)
    eventually(lambda: len(daemon.connections) == 2)
    assert client.load(KEYS, [bytearray(4) for _ in KEYS]).result() == [Result.OK] * 3


def test_a_daemon_that_forgot_the_session_gets_a_new_one(client: L2Client, daemon: ScriptedDaemon) -> None:
    def forgotten(request: Any, context: grpc.ServicerContext) -> None:
        context.abort(grpc.StatusCode.NOT_FOUND, "unknown session")

    daemon.answers["LookupAndLock"] = forgotten
    with pytest.raises(SessionEnded, match="unknown session"):
        client.lookup_and_lock(KEYS).result()
    eventually(lambda: client.session_id == "session-2")


def test_an_expired_store_ticket_does_not_end_the_session(
    client: L2Client, daemon: ScriptedDaemon, file: int
) -> None:
    def prepare(request: Any, context: grpc.ServicerContext) -> cache_pb2.PrepareStoreResponse:
        daemon.send_descriptors(request.request_id, [file])
        extents = cache_pb2.Extents(position=[0], descriptor=[0], offset=[0], length=[4])
        return cache_pb2.PrepareStoreResponse(results=[OK], extents=extents, descriptor_count=1)

    def expired(request: Any, context: grpc.ServicerContext) -> None:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no such ticket")

    daemon.answers.update(PrepareStore=prepare, CommitStore=expired)
    with pytest.raises(RequestRefused, match="no such ticket"):
        client.store(KEYS[:1], [b"aaaa"]).result()
    assert client.session_id == "session-1"


def test_what_could_not_be_written_is_not_committed(client: L2Client, daemon: ScriptedDaemon) -> None:
    commits: list[list[int]] = []
    with open("/dev/full", "wb") as full:

        def prepare(request: Any, context: grpc.ServicerContext) -> cache_pb2.PrepareStoreResponse:
            daemon.send_descriptors(request.request_id, [full.fileno()])
            extents = cache_pb2.Extents(position=[1], descriptor=[0], offset=[0], length=[4])
            present = common_pb2.RESULT_PRESENT
            return cache_pb2.PrepareStoreResponse(results=[present, OK], extents=extents, descriptor_count=1)

        def commit(request: Any, context: grpc.ServicerContext) -> cache_pb2.CommitStoreResponse:
            commits.append(list(request.written_bytes))
            return cache_pb2.CommitStoreResponse(results=[common_pb2.RESULT_SIZE_MISMATCH])

        daemon.answers.update(PrepareStore=prepare, CommitStore=commit)
        before = open_descriptors()
        results = client.store(KEYS[:2], [b"aaaa", b"bbbb"]).result()
        assert results == [Result.PRESENT, Result.NO_SPACE]
        assert commits == [[0]]
        assert open_descriptors() == before


def test_room_that_is_not_used_is_given_back(client: L2Client, daemon: ScriptedDaemon) -> None:
    commits: list[list[int]] = []
    committed = threading.Event()

    def prepare(request: Any, context: grpc.ServicerContext) -> cache_pb2.PrepareStoreResponse:
        extents = cache_pb2.Extents(position=[0], descriptor=[0], offset=[0], length=[4])
        return cache_pb2.PrepareStoreResponse(results=[OK], extents=extents, descriptor_count=1)

    def commit(request: Any, context: grpc.ServicerContext) -> cache_pb2.CommitStoreResponse:
        commits.append(list(request.written_bytes))
        committed.set()
        return cache_pb2.CommitStoreResponse(results=[common_pb2.RESULT_SIZE_MISMATCH])

    daemon.answers.update(PrepareStore=prepare, CommitStore=commit)
    with pytest.raises(SidecarUnavailable):
        client.store(KEYS[:1], [b"aaaa"], timeout_s=0.2).result()
    assert committed.wait(10)
    assert commits == [[0]]


def test_inline_pieces_never_leave_their_buffer(directory: Path) -> None:
    daemon = ScriptedDaemon(directory, handoff=False)
    memory = bytearray(b"." * 12)
    buffers = [memoryview(memory)[start : start + 4] for start in (0, 4, 8)]

    def load(request: cache_pb2.LoadRequest, context: grpc.ServicerContext) -> cache_pb2.LoadResponse:
        assert request.transport == common_pb2.TRANSPORT_INLINE
        extents = cache_pb2.Extents(position=[0, 1, 2], offset=[0, 0, 0], length=[4, 4, 4])
        return cache_pb2.LoadResponse(results=[OK, OK, OK], extents=extents)

    def read(request: Any, context: grpc.ServicerContext) -> Iterator[cache_pb2.Piece]:
        yield cache_pb2.Piece(position=9, data=b"nobody's", last=True)
        yield cache_pb2.Piece(position=0, data=b"aa")
        yield cache_pb2.Piece(position=0, data=b"aa", last=True)
        yield cache_pb2.Piece(position=1, data=b"bbbbbb", last=True)
        yield cache_pb2.Piece(position=1, data=b"bbbb", last=True)
        yield cache_pb2.Piece(position=2, data=b"cc", last=True)

    daemon.answers.update(Load=load, ReadExtents=read)
    with L2Client(daemon.target, "test") as client:
        client.wait_connected()
        results = client.load(KEYS, buffers).result()
        assert client.facts is not None
        assert client.facts.transport is Transport.INLINE
        assert "offers no handoff" in client.facts.transport_reason
    daemon.close()
    assert results == [Result.OK, Result.SIZE_MISMATCH, Result.IO_ERROR]
    assert bytes(memory[:8]) == b"aaaa...."
    assert bytes(memory[10:]) == b".."


def test_an_inline_stream_that_stops_fails_what_is_missing(directory: Path) -> None:
    daemon = ScriptedDaemon(directory, handoff=False)

    def load(request: cache_pb2.LoadRequest, context: grpc.ServicerContext) -> cache_pb2.LoadResponse:
        extents = cache_pb2.Extents(position=[0, 1, 2], offset=[0, 0, 0], length=[4, 4, 4])
        return cache_pb2.LoadResponse(results=[OK, OK, OK], extents=extents)

    def read(request: Any, context: grpc.ServicerContext) -> Iterator[cache_pb2.Piece]:
        yield cache_pb2.Piece(position=0, data=b"aaaa", last=True)
        yield cache_pb2.Piece(position=1, failure=common_pb2.RESULT_NOT_FOUND, last=True)
        context.abort(grpc.StatusCode.UNAVAILABLE, "going down")

    daemon.answers.update(Load=load, ReadExtents=read)
    with L2Client(daemon.target, "test") as client:
        client.wait_connected()
        results = client.load(KEYS, [bytearray(4) for _ in KEYS]).result()
    daemon.close()
    assert results == [Result.OK, Result.NOT_FOUND, Result.UNAVAILABLE]


class Record(SessionListener):
    def __init__(self) -> None:
        self.changes: list[str] = []

    def connected(self, session: object) -> None:
        self.changes.append("up")

    def disconnected(self, cause: Exception) -> None:
        self.changes.append(f"down: {cause}")

    def faults_changed(self, faults: object) -> None:
        self.changes.append(f"faults: {faults}")


def test_a_daemon_that_is_not_there_is_told_once_and_found_when_it_comes(directory: Path) -> None:
    record = Record()
    with L2Client(f"unix:{directory}/cache.sock", "test", listener=record, backoff=QUICK) as client:
        assert not client.wait_connected()
        with pytest.raises(SidecarUnavailable, match="no session with the sidecar"):
            client.lookup_and_lock(KEYS).result()
        eventually(lambda: client.connection_attempts > 5)
        assert len(record.changes) == 1
        assert "No such file" in record.changes[0]
        daemon = ScriptedDaemon(directory)
        eventually(lambda: client.connected)
        daemon.close()
        eventually(lambda: len(record.changes) == 3)
        assert [change[:4] for change in record.changes] == ["down", "up", "down"]


def test_a_peer_that_accepts_and_says_nothing_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        with L2Client(target, "test", timeout_s=0.3, backoff=QUICK) as client:
            assert not client.wait_connected(30.0)
            assert str(client.cause) == "no answer within 0.3 s"
            with pytest.raises(SidecarUnavailable):
                client.usage().result()


def test_changes_of_the_faults_are_heard(client: L2Client, daemon: ScriptedDaemon) -> None:
    assert client.faults is not None
    assert client.faults.rate == 0.0
    changed = common_pb2.FaultInject(rate=0.5, seed=3, gap_indices=[1], generation=2, halted=True)
    daemon.tell(cache_pb2.SessionEvent(fault_inject=changed))
    eventually(lambda: client.faults is not None and client.faults.generation == 2)
    assert (client.faults.rate, client.faults.seed, client.faults.gap_indices) == (0.5, 3, (1,))
    assert client.faults.halted


def test_closing_fails_what_is_under_way_and_leaves_no_thread_and_no_descriptor(
    daemon: ScriptedDaemon, directory: Path
) -> None:
    hang = threading.Event()
    daemon.answers["Load"] = lambda request, context: hang.wait()
    before = threading.active_count()
    client = L2Client(daemon.target, "test")
    client.wait_connected()
    future = client.load(KEYS, [bytearray(4) for _ in KEYS])
    client.close()
    client.close()
    with pytest.raises(SidecarUnavailable):
        future.result(timeout=10)
    with pytest.raises(SidecarUnavailable):
        client.load(KEYS, [bytearray(4) for _ in KEYS]).result(timeout=10)
    hang.set()
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("kvchaos-")])
    assert threading.active_count() <= before + 3  # of the daemon, one for each call


def test_wrong_arguments_are_refused_before_anything_happens(client: L2Client) -> None:
    with pytest.raises(InvalidKeyError, match="10001 keys is over the limit of 10000"):
        client.lookup_and_lock([KEYS[0]] * 10_001)
    with pytest.raises(InvalidKeyError, match="cannot be sent"):
        client.lookup_and_lock([ObjectKey(b"x", "model", 2**32)])
    with pytest.raises(ValueError, match="3 keys with 1 buffers"):
        client.store(KEYS, [b"x"])
    with pytest.raises(ValueError, match="buffer 1 is read-only"):
        client.load(KEYS[:2], [bytearray(1), b"x"])
    with pytest.raises(ValueError, match="a buffer cannot be used"):
        client.store(KEYS[:1], ["text"])
    with pytest.raises(ValueError, match="page_size 0"):
        client.list_keys(page_size=0)
    with pytest.raises(ConfigError):
        L2Client("nonsense", "test")
    with pytest.raises(ValueError, match="client_name"):
        L2Client("localhost:1", "")
    with pytest.raises(ValueError, match="workers"):
        L2Client("localhost:1", "test", workers=0)


def test_a_batch_of_no_keys_asks_nobody(client: L2Client) -> None:
    assert client.lookup_and_lock([]).result() == []
    assert client.load([], []).result() == []
    assert client.store([], []).result() == []
    assert client.delete([]).result() == []
    assert client.unlock([]).result() == 0


def test_a_fork_does_not_use_the_connection_of_its_parent(client: L2Client) -> None:
    child = os.fork()
    if child == 0:
        refused = isinstance(client.usage().exception(), SidecarUnavailable)
        client.close()
        os._exit(0 if refused else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert client.connected
