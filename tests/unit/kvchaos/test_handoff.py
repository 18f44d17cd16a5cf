import array
import fcntl
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.harness.scripted_daemon import open_descriptors
from tests.harness.waiting import eventually

from kvchaos.errors import HandoffRefused, SidecarUnavailable
from kvchaos.handoff import Delivery, HandoffConnection, connect_handoff
from kvchaos.v1 import handoff_pb2


class Peer:
    """The daemon's end of a handoff connection, and the client's."""

    def __init__(self) -> None:
        self.socket, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.lost = threading.Event()
        self.connection = HandoffConnection(ours, self.lost.set)

    def send(self, request_id: int, descriptors: Sequence[int], first_index: int = 0) -> None:
        header = handoff_pb2.Descriptors(request_id=request_id, first_index=first_index)
        rights = array.array("i", descriptors)
        packet = handoff_pb2.DaemonPacket(descriptors=header).SerializeToString()
        self.socket.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def released(self) -> handoff_pb2.Release:
        return handoff_pb2.ClientPacket.FromString(self.socket.recv(65536)).release


@pytest.fixture
def peer() -> Iterator[Peer]:
    before = open_descriptors()
    ends = Peer()
    yield ends
    ends.connection.close()
    ends.socket.close()
    assert open_descriptors() == before


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    numbers = []
    for number in range(3):
        (tmp_path / str(number)).write_text(f"file {number}")
        numbers.append(os.open(tmp_path / str(number), os.O_RDONLY))
    yield numbers
    for descriptor in numbers:
        os.close(descriptor)


def contents(descriptors: Sequence[int]) -> list[bytes]:
    found = [os.pread(descriptor, 100, 0) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    return found


def test_descriptors_come_in_the_order_of_their_numbers(peer: Peer, files: list[int]) -> None:
    delivery = peer.connection.open_delivery(1)
    peer.send(1, files[2:], first_index=2)
    peer.send(1, files[:2])
    assert contents(delivery.take(3, 10.0)) == [b"file 0", b"file 1", b"file 2"]
    peer.connection.close_delivery(delivery)


def test_interleaved_requests_get_their_own(peer: Peer, files: list[int]) -> None:
    first, second = peer.connection.open_delivery(1), peer.connection.open_delivery(2)
    peer.send(2, [files[0]])
    peer.send(1, [files[1]])
    peer.send(2, [files[2]], first_index=1)
    assert contents(second.take(2, 10.0)) == [b"file 0", b"file 2"]
    assert contents(first.take(1, 10.0)) == [b"file 1"]
    peer.connection.close_delivery(first)
    peer.connection.close_delivery(second)


def test_descriptors_are_not_inherited_by_programs(peer: Peer, files: list[int]) -> None:
    delivery = peer.connection.open_delivery(1)
    peer.send(1, files[:1])
    (descriptor,) = delivery.take(1, 10.0)
    assert fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    check = f"import os,sys; sys.exit(os.path.exists('/proc/self/fd/{descriptor}'))"
    assert subprocess.run([sys.executable, "-c", check], close_fds=False, check=False).returncode == 0
    os.close(descriptor)
    peer.connection.close_delivery(delivery)


def test_what_nobody_waits_for_is_closed_and_released(peer: Peer, files: list[int]) -> None:
    before = open_descriptors()
    peer.send(77, files)
    assert peer.released().request_id == 77
    assert open_descriptors() == before


def test_what_comes_after_the_wait_is_over_is_closed(peer: Peer, files: list[int]) -> None:
    before = open_descriptors()
    delivery = peer.connection.open_delivery(1)
    peer.send(1, files[:1])
    eventually(lambda: len(open_descriptors()) > len(before))
    with pytest.raises(SidecarUnavailable, match=r"expected descriptors 0 to 1, got \[0\]"):
        delivery.take(2, 0.0)
    peer.connection.close_delivery(delivery)
    peer.send(1, files[1:])
    peer.released()
    assert open_descriptors() == before


def test_what_comes_while_the_wait_ends_is_closed() -> None:
    before = open_descriptors()
    delivery = Delivery(1)
    delivery.end()
    delivery.add(0, [os.open("/dev/null", os.O_RDONLY)])
    assert open_descriptors() == before


def test_a_number_sent_twice_is_kept_once(peer: Peer, files: list[int]) -> None:
    delivery = peer.connection.open_delivery(1)
    peer.send(1, files[:1])
    peer.send(1, files[1:2])
    peer.send(1, files[2:], first_index=1)
    assert contents(delivery.take(2, 10.0)) == [b"file 0", b"file 2"]
    peer.connection.close_delivery(delivery)


def test_a_batch_needs_no_descriptor_when_all_is_dropped(peer: Peer) -> None:
    delivery = peer.connection.open_delivery(1)
    assert delivery.take(0, 0.0) == []
    peer.connection.close_delivery(delivery)


def test_a_lost_connection_fails_who_waits_and_who_comes_later(peer: Peer) -> None:
    delivery = peer.connection.open_delivery(1)
    peer.socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(SidecarUnavailable, match="closed the handoff connection"):
        delivery.take(1, 10.0)
    assert peer.lost.wait(10)
    late = peer.connection.open_delivery(2)
    with pytest.raises(SidecarUnavailable):
        late.take(1, 10.0)
    peer.connection.release(1)


def test_a_packet_of_garbage_ends_the_connection(peer: Peer, files: list[int]) -> None:
    before = open_descriptors()
    rights = array.array("i", files)
    peer.socket.sendmsg([b"\xff" * 9], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    assert peer.lost.wait(10)
    assert len(open_descriptors()) == len(before) - 1


def test_closing_it_is_no_loss(peer: Peer) -> None:
    peer.connection.close()
    peer.connection.close()
    assert not peer.lost.is_set()


def test_release_names_the_positions_that_failed(peer: Peer) -> None:
    peer.connection.release(5, {3: "x", 1: "y"})
    released = peer.released()
    assert (released.request_id, list(released.failed_position)) == (5, [1, 3])


def test_a_daemon_that_does_not_read_is_not_waited_for(peer: Peer) -> None:
    for number in range(20_000):
        peer.connection.release(number, range(100))


def test_reaching_the_limit_of_open_files_fails_the_load_and_leaks_nothing(tmp_path: Path) -> None:
    """In a process of its own, whose limit is lowered just before the descriptors arrive."""
    script = """
import os, resource, sys
from tests.unit.kvchaos.test_handoff import Peer
from tests.harness.scripted_daemon import open_descriptors
from tests.harness.waiting import eventually
from kvchaos.errors import SidecarUnavailable
peer = Peer()
delivery = peer.connection.open_delivery(1)
file = os.open("/dev/null", os.O_RDONLY)
before = len(open_descriptors())
resource.setrlimit(resource.RLIMIT_NOFILE, (file + 3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
peer.send(1, [file] * 10)
try:
    delivery.take(10, 10.0)
except SidecarUnavailable as error:
    peer.connection.close_delivery(delivery)
    sys.exit(0 if "limit of open files" in str(error) and len(open_descriptors()) == before else 1)
sys.exit(2)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    path = f"/tmp/kvchaos-{os.getpid()}-{threading.get_ident()}.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(path)
        listening.listen()
        yield listening, path
    os.unlink(path)


def test_a_refusal_says_why(listener: tuple[socket.socket, str]) -> None:
    listening, path = listener

    def refuse() -> None:
        connection, _ = listening.accept()
        hello = handoff_pb2.ClientPacket.FromString(connection.recv(65536)).hello
        reason = f"{hello.session_id} {hello.token.decode()} is not welcome"
        welcome = handoff_pb2.Welcome(accepted=False, refusal=reason)
        connection.send(handoff_pb2.DaemonPacket(welcome=welcome).SerializeToString())
        connection.close()

    before = open_descriptors()
    thread = threading.Thread(target=refuse)
    thread.start()
    with pytest.raises(HandoffRefused, match="s1 t1 is not welcome"):
        connect_handoff(path, "s1", b"t1", 10.0)
    thread.join()
    assert open_descriptors() == before


def test_a_daemon_that_says_nothing_is_given_up(listener: tuple[socket.socket, str]) -> None:
    with pytest.raises(HandoffRefused, match="timed out"):
        connect_handoff(listener[1], "s", b"t", 0.05)


def test_a_socket_that_is_not_there_is_named() -> None:
    with pytest.raises(HandoffRefused, match=r"/nowhere/handoff\.sock: .*No such file"):
        connect_handoff("/nowhere/handoff.sock", "s", b"t", 1.0)
