import queue
import socket
import threading
import time
from collections.abc import Iterator

import grpc
import pytest

from kvchaos.answers import Outcome
from kvchaos.handoff import MAX_PACKET_BYTES, HandoffConnection
from kvchaos.keys import ObjectKey, encode_keys
from kvchaos.packet_calls import MAX_KEYS
from kvchaos.v1 import cache_pb2, handoff_pb2

PATIENCE_S = 30.0


class Daemon:
    """The daemon's end of a handoff connection that takes calls, and the client's."""

    def __init__(self) -> None:
        self.socket, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE_S)
        self.lost = threading.Event()
        self.connection = HandoffConnection(ours, self.lost.set)
        self.outcomes: queue.Queue[Outcome] = queue.Queue()

    def lookup(self, count: int = 1, timeout_s: float = PATIENCE_S, hash_bytes: int = 16) -> bool:
        """Makes a call whose outcome goes to ``outcomes``."""
        keys = [ObjectKey(number.to_bytes(hash_bytes, "big"), "model", 0) for number in range(count)]
        request = cache_pb2.LookupAndLockRequest(session_id="session", keys=encode_keys(keys))
        return self.connection.call("LookupAndLock", request, timeout_s, self.outcomes.put)

    def received(self) -> handoff_pb2.ClientPacket:
        return handoff_pb2.ClientPacket.FromString(self.socket.recv(MAX_PACKET_BYTES))

    def answer(self, call_id: int, results: list[int]) -> None:
        response = cache_pb2.LookupAndLockResponse(results=results)
        self.send(handoff_pb2.Answer(call_id=call_id, lookup_and_lock=response))

    def send(self, answer: handoff_pb2.Answer) -> None:
        self.socket.send(handoff_pb2.DaemonPacket(answer=answer).SerializeToString())

    def outcome(self) -> Outcome:
        return self.outcomes.get(timeout=PATIENCE_S)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    ends = Daemon()
    yield ends
    ends.connection.close()
    ends.socket.close()


def test_answers_find_their_calls_in_any_order(daemon: Daemon) -> None:
    assert daemon.lookup(1)
    assert daemon.lookup(2)
    first, second = daemon.received().call, daemon.received().call
    daemon.answer(second.call_id, [1, 3])
    assert list(daemon.outcome().response.results) == [1, 3]
    daemon.answer(first.call_id, [1])
    assert list(daemon.outcome().response.results) == [1]


def test_a_call_carries_the_request_as_it_is(daemon: Daemon) -> None:
    daemon.lookup(3)
    request = daemon.received().call.lookup_and_lock
    assert request.session_id == "session"
    assert len(request.keys.chunk_hash) == 3


def test_a_failure_is_the_status_that_grpc_would_have_had(daemon: Daemon) -> None:
    daemon.lookup()
    call_id = daemon.received().call.call_id
    code = grpc.StatusCode.NOT_FOUND
    failure = handoff_pb2.Failure(status_code=code.value[0], message="no such session")
    daemon.send(handoff_pb2.Answer(call_id=call_id, failure=failure))
    assert daemon.outcome() == Outcome(code, "no such session", None)


@pytest.mark.parametrize(
    "answer",
    [handoff_pb2.Answer(), handoff_pb2.Answer(failure=handoff_pb2.Failure(status_code=4711))],
    ids=["empty", "unknown status"],
)
def test_an_answer_that_means_nothing_is_a_failure(daemon: Daemon, answer: handoff_pb2.Answer) -> None:
    daemon.lookup()
    answer.call_id = daemon.received().call.call_id
    daemon.send(answer)
    assert daemon.outcome().code is grpc.StatusCode.UNKNOWN


def test_a_call_that_is_not_answered_in_time_fails_and_is_cancelled(daemon: Daemon) -> None:
    daemon.lookup(timeout_s=0.05)
    call_id = daemon.received().call.call_id
    assert daemon.outcome().code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert daemon.received().cancel.call_id == call_id
    daemon.answer(call_id, [1])
    daemon.lookup()
    daemon.answer(daemon.received().call.call_id, [2])
    assert list(daemon.outcome().response.results) == [2]


def test_a_shorter_deadline_is_met_while_a_longer_one_is_waited_for(daemon: Daemon) -> None:
    daemon.lookup(timeout_s=PATIENCE_S)
    time.sleep(0.05)  # until the deadline of the first is being waited for
    daemon.lookup(timeout_s=0.05)
    assert daemon.outcome().code is grpc.StatusCode.DEADLINE_EXCEEDED


def test_the_end_of_the_connection_ends_the_calls(daemon: Daemon) -> None:
    daemon.lookup()
    daemon.received()
    daemon.socket.shutdown(socket.SHUT_RDWR)
    assert daemon.outcome().code is grpc.StatusCode.UNAVAILABLE
    assert daemon.lost.wait(PATIENCE_S)
    assert not daemon.lookup()


def test_closing_ends_the_calls(daemon: Daemon) -> None:
    daemon.lookup()
    daemon.connection.close()
    assert daemon.outcome().code is grpc.StatusCode.UNAVAILABLE
    assert not daemon.lost.is_set()


def test_what_fits_into_no_packet_is_left_to_grpc(daemon: Daemon) -> None:
    assert not daemon.lookup(MAX_KEYS + 1, hash_bytes=2)
    assert not daemon.lookup(MAX_KEYS, hash_bytes=64)
    assert daemon.lookup(MAX_KEYS)
    assert len(daemon.received().call.lookup_and_lock.keys.chunk_hash) == MAX_KEYS


def test_a_daemon_that_does_not_read_is_not_waited_for(daemon: Daemon) -> None:
    taken = 0
    while daemon.lookup():
        taken += 1
    assert taken > 10
    daemon.connection.close()
    assert [daemon.outcome().code for _ in range(taken)] == [grpc.StatusCode.UNAVAILABLE] * taken


def test_calls_that_are_never_made_in_packets(daemon: Daemon) -> None:
    request = cache_pb2.GetUsageRequest(session_id="session")
    assert not daemon.connection.call("GetUsage", request, PATIENCE_S, daemon.outcomes.put)


def test_whoever_fails_on_an_outcome_does_not_end_the_connection(daemon: Daemon) -> None:
    def fail(outcome: Outcome) -> None:
        raise ZeroDivisionError

    request = cache_pb2.LookupAndLockRequest(session_id="session")
    daemon.connection.call("LookupAndLock", request, PATIENCE_S, fail)
    daemon.answer(daemon.received().call.call_id, [])
    daemon.lookup()
    daemon.answer(daemon.received().call.call_id, [1])
    assert daemon.outcome().code is grpc.StatusCode.OK
