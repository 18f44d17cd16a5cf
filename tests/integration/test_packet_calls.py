"""Calls on the handoff connection: the same answers as by gRPC, and nothing left behind."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import pytest
from tests.harness.in_process import InProcessSidecar
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually
from tests.harness.wire import HANDOFF, WireSession, close_all, make_keys

from kvchaos.handoff import MAX_DESCRIPTORS_PER_PACKET, receive_packet
from kvchaos.keys import ObjectKey, encode_keys
from kvchaos.packet_calls import MAX_KEYS
from kvchaos.results import Result
from kvchaos.v1 import cache_pb2, handoff_pb2
from kvchaos_sidecar.backends.memory import MemoryBackend

SIZE = 1000


class Wire:
    """A session whose calls go in packets."""

    def __init__(self, session: WireSession) -> None:
        self.session = session.connect_handoff()
        assert session.handoff is not None
        self.handoff = session.handoff
        self._ids = iter(range(1, 1_000_000))

    def send(self, **request: Any) -> int:
        call_id = next(self._ids)
        call = handoff_pb2.Call(call_id=call_id, **request)
        self.handoff.socket.send(handoff_pb2.ClientPacket(call=call).SerializeToString())
        return call_id

    def receive(self) -> handoff_pb2.Answer:
        answer, descriptors = self.receive_with_descriptors()
        assert not descriptors
        return answer

    def receive_with_descriptors(self) -> tuple[handoff_pb2.Answer, list[int]]:
        payload, descriptors, whole = receive_packet(self.handoff.socket)
        packet = handoff_pb2.DaemonPacket.FromString(payload)
        assert whole
        assert packet.HasField("answer")
        assert packet.answer.HasField("descriptors") == bool(descriptors)
        return packet.answer, descriptors

    def call(self, **request: Any) -> handoff_pb2.Answer:
        call_id = self.send(**request)
        answer = self.receive()
        assert answer.call_id == call_id
        return answer

    def cancel(self, call_id: int) -> None:
        cancel = handoff_pb2.Cancel(call_id=call_id)
        self.handoff.socket.send(handoff_pb2.ClientPacket(cancel=cancel).SerializeToString())

    def lookup(self, keys: Sequence[ObjectKey]) -> cache_pb2.LookupAndLockRequest:
        return cache_pb2.LookupAndLockRequest(session_id=self.session.id, keys=encode_keys(keys))


class WaitingStore(MemoryBackend):
    """Lookups wait until told to go on."""

    def __init__(self) -> None:
        super().__init__(1 << 20)
        self.go_on = asyncio.Event()
        self.lookups = 0

    async def lock(self, keys: Sequence[ObjectKey]) -> list[bool]:
        self.lookups += 1
        await self.go_on.wait()
        return [True] * len(keys)

    async def let_go_on(self) -> None:
        self.go_on.set()


def cancelled_lookups(sidecar: InProcessSidecar) -> float | None:
    labels = {"op": "lookup", "result_code": "cancelled"}
    return sidecar.registry.get_sample_value("kvchaos_requests_total", labels)


@pytest.fixture
def wire(shared_sidecar: SidecarProcess) -> Iterator[Wire]:
    with WireSession(shared_sidecar.cache_target) as session:
        yield Wire(session)


@pytest.fixture
def waiting() -> Iterator[tuple[WaitingStore, InProcessSidecar, Wire]]:
    store = WaitingStore()
    with InProcessSidecar(store) as sidecar, WireSession(sidecar.cache_target) as session:
        yield store, sidecar, Wire(session)


def test_every_call_does_what_it_does_by_grpc(wire: Wire) -> None:
    keys = make_keys(3, b"packets")
    stored = cache_pb2.PrepareStoreRequest(
        session_id=wire.session.id,
        request_id=7,
        keys=encode_keys(keys),
        size_bytes=[SIZE],
        transport=HANDOFF,
    )
    wire.send(prepare_store=stored)
    answer, descriptors = wire.receive_with_descriptors()
    assert answer.descriptors.request_id == 7
    assert answer.prepare_store.results == [Result.OK] * 3
    for number, descriptor in enumerate(descriptors):
        os.pwrite(descriptor, bytes([number]) * SIZE, 0)
    close_all(descriptors)
    commit = cache_pb2.CommitStoreRequest(session_id=wire.session.id, request_id=7, written_bytes=[SIZE] * 3)
    assert wire.call(commit_store=commit).commit_store.results == [Result.OK] * 3
    assert wire.call(lookup_and_lock=wire.lookup(keys)).lookup_and_lock.results == [Result.OK] * 3
    wire.send(load=wire.session.load_request(keys, SIZE, 8))
    answer, descriptors = wire.receive_with_descriptors()
    assert answer.descriptors.request_id == 8
    assert answer.load.descriptor_count == 3
    assert [os.pread(descriptor, 1, 0) for descriptor in descriptors] == [b"\0", b"\1", b"\2"]
    close_all(descriptors)
    wire.handoff.release(8)
    unlock = cache_pb2.UnlockRequest(session_id=wire.session.id, keys=encode_keys(keys))
    assert wire.call(unlock=unlock).unlock.released == 3
    assert wire.session.status().locks == 0


def test_descriptors_that_are_too_many_for_a_packet_come_before_the_answer(wire: Wire) -> None:
    keys = make_keys(MAX_DESCRIPTORS_PER_PACKET + 1, b"many")
    wire.session.store_objects(keys, [bytes([number % 251]) for number in range(len(keys))])
    wire.send(load=wire.session.load_request(keys, 1, 9))
    descriptors = wire.handoff.receive_all(len(keys))
    assert wire.receive().load.descriptor_count == len(keys)
    assert [os.pread(descriptor, 1, 0)[0] for descriptor in descriptors] == [
        number % 251 for number in range(len(keys))
    ]
    close_all(descriptors)
    wire.handoff.release(9)


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        (lambda wire: cache_pb2.LookupAndLockRequest(session_id="nobody's"), grpc.StatusCode.NOT_FOUND),
        (lambda wire: wire.lookup([ObjectKey(b"", "model", 0)]), grpc.StatusCode.INVALID_ARGUMENT),
        (lambda wire: wire.lookup(make_keys(MAX_KEYS + 1)), grpc.StatusCode.INVALID_ARGUMENT),
    ],
    ids=["session", "key", "too many keys"],
)
def test_a_refusal_is_an_answer_and_ends_nothing(wire: Wire, request_of: Any, code: grpc.StatusCode) -> None:
    failure = wire.call(lookup_and_lock=request_of(wire)).failure
    assert failure.status_code == code.value[0]
    assert failure.message
    assert wire.call(lookup_and_lock=wire.lookup(make_keys(1))).lookup_and_lock.results == [Result.NOT_FOUND]


def test_a_call_of_a_later_version_is_refused_and_ends_nothing(wire: Wire) -> None:
    assert wire.call().failure.status_code == grpc.StatusCode.UNIMPLEMENTED.value[0]
    assert wire.call(lookup_and_lock=wire.lookup(make_keys(1))).HasField("lookup_and_lock")


def test_calls_do_not_wait_for_each_other(waiting: tuple[WaitingStore, InProcessSidecar, Wire]) -> None:
    store, sidecar, wire = waiting
    keys = make_keys(1)
    slow = wire.send(lookup_and_lock=wire.lookup(keys))
    unlock = cache_pb2.UnlockRequest(session_id=wire.session.id, keys=encode_keys(keys))
    assert wire.call(unlock=unlock).unlock.released == 0
    sidecar.run(store.let_go_on())
    assert wire.receive().call_id == slow


def test_a_cancelled_call_leaves_nothing(waiting: tuple[WaitingStore, InProcessSidecar, Wire]) -> None:
    store, sidecar, wire = waiting
    cancelled = wire.send(lookup_and_lock=wire.lookup(make_keys(2)))
    eventually(lambda: store.lookups == 1)
    wire.cancel(cancelled)
    eventually(lambda: cancelled_lookups(sidecar) == 1)
    sidecar.run(store.let_go_on())
    answer = wire.call(lookup_and_lock=wire.lookup(make_keys(1)))
    assert answer.lookup_and_lock.results == [Result.OK]
    assert wire.session.status().locks == 1


def test_cancelling_what_is_not_there_is_nothing(wire: Wire) -> None:
    wire.cancel(4711)
    assert wire.call(lookup_and_lock=wire.lookup(make_keys(1))).HasField("lookup_and_lock")


def test_the_end_of_the_connection_cancels_its_calls(
    waiting: tuple[WaitingStore, InProcessSidecar, Wire],
) -> None:
    store, sidecar, wire = waiting
    wire.send(lookup_and_lock=wire.lookup(make_keys(2)))
    eventually(lambda: store.lookups == 1)
    wire.session.close()
    eventually(lambda: cancelled_lookups(sidecar) == 1)


def test_a_call_id_in_use_ends_the_connection(
    waiting: tuple[WaitingStore, InProcessSidecar, Wire],
) -> None:
    _, _, wire = waiting
    call = handoff_pb2.Call(call_id=5, lookup_and_lock=wire.lookup(make_keys(1)))
    packet = handoff_pb2.ClientPacket(call=call).SerializeToString()
    wire.handoff.socket.send(packet)
    wire.handoff.socket.send(packet)
    assert wire.handoff.at_end()
