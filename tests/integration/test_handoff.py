"""Who gets descriptors, which, and what a client that misbehaves costs others."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from tests.harness.in_process import InProcessSidecar
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually
from tests.harness.wire import HandoffSocket, WireSession, close_all, make_keys

from kvchaos.v1 import handoff_pb2
from kvchaos_sidecar.backends.memory import MemoryBackend
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.sessions.token import TOKEN_TTL_S

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534


@pytest.fixture
def opened(shared_sidecar: SidecarProcess) -> Iterator[WireSession]:
    with WireSession(shared_sidecar.cache_target) as session:
        yield session


def hello(session: WireSession, token: bytes) -> handoff_pb2.Welcome:
    connection = HandoffSocket(session.opened.handoff.socket_path)
    welcome = connection.hello(session.id, token)
    if not welcome.accepted:
        assert connection.at_end()
    connection.close()
    return welcome


def refusal_of_another_user(session: WireSession) -> str:
    offer = session.opened.handoff
    arguments = [str(NOBODY), offer.socket_path, session.id, offer.token.hex()]
    command = [sys.executable, "-m", "tests.harness.other_user", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()


def test_a_forged_token_is_refused_and_does_not_spend_the_genuine_one(opened: WireSession) -> None:
    assert not hello(opened, bytes(32)).accepted
    assert not hello(opened, b"").accepted
    assert hello(opened, opened.opened.handoff.token).accepted


def test_a_replayed_token_is_refused(opened: WireSession) -> None:
    opened.connect_handoff()
    assert "used" in hello(opened, opened.opened.handoff.token).refusal


def test_a_token_opens_no_other_session(shared_sidecar: SidecarProcess, opened: WireSession) -> None:
    with WireSession(shared_sidecar.cache_target) as other:
        assert not hello(opened, other.opened.handoff.token).accepted


def test_an_expired_token_is_refused() -> None:
    clock = ManualClock()
    with (
        InProcessSidecar(MemoryBackend(1000), clock) as sidecar,
        WireSession(sidecar.cache_target) as session,
    ):
        clock.advance(TOKEN_TTL_S)
        assert "expired" in hello(session, session.opened.handoff.token).refusal
        assert sidecar.value("kvchaos_handoff_refusals_total") == 1


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_refused_and_told_what_to_change(sidecar: SidecarProcess) -> None:
    with WireSession(sidecar.cache_target) as session:
        offer = session.opened.handoff
        os.chmod(offer.socket_path, 0o666)
        command = [sys.executable, "-m", "tests.harness.other_user", str(NOBODY), offer.socket_path]
        answer = subprocess.run(
            [*command, session.id, offer.token.hex()],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        )
        assert f"user id {NOBODY}" in answer.stdout
        assert "handoff.allow_uids" in answer.stdout
        assert hello(session, offer.token).accepted


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_who_is_allowed_is_welcome(store_path: Path) -> None:
    store = {"type": "fs", "base_path": str(store_path)}
    daemon = SidecarProcess(store, handoff={"allow_uids": [NOBODY]})
    with daemon as sidecar, WireSession(sidecar.cache_target) as session:
        offer = session.opened.handoff
        assert "user id 0" in hello(session, offer.token).refusal
        os.chmod(offer.socket_path, 0o666)
        assert refusal_of_another_user(session) == ""


@pytest.mark.parametrize("packet", [b"\xff\xff", b"x" * 70_000])
def test_a_malformed_first_packet_ends_the_connection(opened: WireSession, packet: bytes) -> None:
    connection = HandoffSocket(opened.opened.handoff.socket_path)
    connection.socket.send(packet)
    assert connection.at_end()
    connection.close()
    assert hello(opened, opened.opened.handoff.token).accepted


def test_a_malformed_packet_later_ends_the_session(opened: WireSession) -> None:
    opened.connect_handoff()
    assert opened.handoff is not None
    opened.handoff.socket.send(b"\xff\xff")
    assert opened.handoff.at_end()
    with pytest.raises(grpc.RpcError) as error:
        list(opened.stream)
    assert "handoff_lost" in str(error.value)


def test_descriptors_for_reading_cannot_write(shared_sidecar: SidecarProcess) -> None:
    keys = make_keys(2)
    with WireSession(shared_sidecar.cache_target).connect_handoff() as session:
        session.store_objects(keys, [b"one", b"two"])
        assert session.handoff is not None
        descriptors = session.handoff.receive_all(session.load(keys, 3).descriptor_count)
        for descriptor in descriptors:
            assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.pwrite(descriptor, b"x", 0)
        close_all(descriptors)


def test_more_descriptors_than_one_packet_takes_arrive_in_order(shared_sidecar: SidecarProcess) -> None:
    keys = make_keys(600)
    objects = [number.to_bytes(2, "big") for number in range(600)]
    with WireSession(shared_sidecar.cache_target).connect_handoff() as session:
        session.store_objects(keys, objects)
        assert session.handoff is not None
        session.load(keys, 2, 9)
        packets = [session.handoff.receive() for _ in range(3)]
        assert [(header.request_id, header.first_index) for header, _ in packets] == [
            (9, 0),
            (9, 253),
            (9, 506),
        ]
        descriptors = [descriptor for _, received in packets for descriptor in received]
        assert [os.pread(descriptor, 2, 0) for descriptor in descriptors] == objects
        close_all(descriptors)


def test_a_client_that_takes_no_descriptors_holds_up_only_itself(shared_sidecar: SidecarProcess) -> None:
    keys = make_keys(3)
    with (
        WireSession(shared_sidecar.cache_target, "stuck").connect_handoff() as stuck,
        WireSession(shared_sidecar.cache_target).connect_handoff() as other,
    ):
        other.store_objects(keys, [b"x"] * 3)
        more_than_a_socket_holds = range(100, 600)
        loads = [
            stuck.stub.Load.future(stuck.load_request(keys[:1], 1, number), timeout=60)
            for number in more_than_a_socket_holds
        ]
        eventually(lambda: sum(load.done() for load in loads) > 100, "the first loads are answered")
        assert other.load_objects(keys, 1, 2) == {0: b"x", 1: b"x", 2: b"x"}
        assert not all(load.done() for load in loads)
        stuck.close()
        eventually(lambda: shared_sidecar.metrics().value("kvchaos_grants") == 0, "all is given back")
