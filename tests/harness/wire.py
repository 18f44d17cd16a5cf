"""A client of the cache service that speaks the wire directly, so that tests can also speak it wrongly."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import grpc

from kvchaos.keys import ObjectKey, encode_keys
from kvchaos.protocol import PROTOCOL_VERSION
from kvchaos.results import Result
from kvchaos.v1 import cache_pb2, cache_pb2_grpc, common_pb2, handoff_pb2

TIMEOUT_S = 20.0
HANDOFF = common_pb2.TRANSPORT_HANDOFF
INLINE = common_pb2.TRANSPORT_INLINE


def make_keys(count: int, prefix: bytes | None = None, model_name: str = "org/model") -> list[ObjectKey]:
    """Distinct keys of one prompt; of another prompt each time, unless they get a prefix."""
    first = os.urandom(16) if prefix is None else prefix
    return [ObjectKey(first + number.to_bytes(16, "big"), model_name, 0x01000100) for number in range(count)]


def results_of(message: cache_pb2.LoadResponse | cache_pb2.LookupAndLockResponse) -> list[Result]:
    """The results of a response."""
    return [Result(result) for result in message.results]


class HandoffSocket:
    """A raw connection to the handoff socket."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(path)

    def hello(self, session_id: str, token: bytes) -> handoff_pb2.Welcome:
        """Says hello and returns the answer."""
        hello = handoff_pb2.Hello(session_id=session_id, token=token)
        self.socket.send(handoff_pb2.ClientPacket(hello=hello).SerializeToString())
        return handoff_pb2.DaemonPacket.FromString(self.socket.recv(65536)).welcome

    def release(self, request_id: int, failed: Sequence[int] = ()) -> None:
        """Says that a load is over."""
        release = handoff_pb2.Release(request_id=request_id, failed_position=failed)
        self.socket.send(handoff_pb2.ClientPacket(release=release).SerializeToString())

    def receive(self) -> tuple[handoff_pb2.Descriptors, list[int]]:
        """One packet of descriptors."""
        space = socket.CMSG_SPACE(253 * array.array("i").itemsize)
        payload, ancillary, _flags, _ = self.socket.recvmsg(65536, space)
        descriptors = array.array("i")
        for _level, _kind, data in ancillary:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        return handoff_pb2.DaemonPacket.FromString(payload).descriptors, list(descriptors)

    def receive_all(self, count: int) -> list[int]:
        """The descriptors of one request, in order."""
        descriptors: list[int] = []
        while len(descriptors) < count:
            header, received = self.receive()
            assert header.first_index == len(descriptors)
            descriptors += received
        return descriptors

    def at_end(self) -> bool:
        """Waits for the daemon to end the connection."""
        try:
            return self.socket.recv(65536) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Ends the connection."""
        self.socket.close()


class WireSession:
    """One open session.

    Attributes:
        opened: what the daemon said first.
        handoff: the handoff connection, once :meth:`connect_handoff` has made it.
    """

    def __init__(self, target: str, client_name: str = "wire", token: str = "") -> None:
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 1 << 26))
        self.channel = grpc.insecure_channel(target, options)
        self.stub = cache_pb2_grpc.L2CacheStub(self.channel)
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        request = cache_pb2.OpenSessionRequest(client_name=client_name, protocol_version=PROTOCOL_VERSION)
        self.stream = self.stub.OpenSession(request, metadata=metadata, wait_for_ready=True)
        self.opened = next(self.stream).opened
        self.id = self.opened.session_id
        self.handoff: HandoffSocket | None = None

    def connect_handoff(self) -> Self:
        """Makes the handoff connection."""
        self.handoff = HandoffSocket(self.opened.handoff.socket_path)
        assert self.handoff.hello(self.id, self.opened.handoff.token).accepted
        return self

    def lookup(self, keys: Sequence[ObjectKey]) -> list[Result]:
        """LookupAndLock."""
        request = cache_pb2.LookupAndLockRequest(session_id=self.id, keys=encode_keys(keys))
        return results_of(self.stub.LookupAndLock(request, timeout=TIMEOUT_S))

    def unlock(self, keys: Sequence[ObjectKey]) -> int:
        """Unlock."""
        request = cache_pb2.UnlockRequest(session_id=self.id, keys=encode_keys(keys))
        return self.stub.Unlock(request, timeout=TIMEOUT_S).released

    def status(self) -> cache_pb2.GetCacheStatusResponse:
        """GetCacheStatus."""
        return self.stub.GetCacheStatus(
            cache_pb2.GetCacheStatusRequest(session_id=self.id), timeout=TIMEOUT_S
        )

    def load_request(
        self,
        keys: Sequence[ObjectKey],
        size: int,
        request_id: int = 1,
        transport: common_pb2.Transport = HANDOFF,
    ) -> cache_pb2.LoadRequest:
        """A load of objects of one size."""
        return cache_pb2.LoadRequest(
            session_id=self.id,
            request_id=request_id,
            keys=encode_keys(keys),
            size_bytes=[size],
            transport=transport,
        )

    def load(
        self,
        keys: Sequence[ObjectKey],
        size: int,
        request_id: int = 1,
        transport: common_pb2.Transport = HANDOFF,
    ) -> cache_pb2.LoadResponse:
        """Load."""
        request = self.load_request(keys, size, request_id, transport)
        return self.stub.Load(request, timeout=TIMEOUT_S)

    def prepare(
        self,
        keys: Sequence[ObjectKey],
        size: int,
        request_id: int = 1,
        transport: common_pb2.Transport = HANDOFF,
    ) -> cache_pb2.PrepareStoreResponse:
        """PrepareStore."""
        request = cache_pb2.PrepareStoreRequest(
            session_id=self.id,
            request_id=request_id,
            keys=encode_keys(keys),
            size_bytes=[size],
            transport=transport,
        )
        return self.stub.PrepareStore(request, timeout=TIMEOUT_S)

    def commit(self, written: Sequence[int], request_id: int = 1) -> list[Result]:
        """CommitStore."""
        request = cache_pb2.CommitStoreRequest(
            session_id=self.id, request_id=request_id, written_bytes=written
        )
        return [Result(result) for result in self.stub.CommitStore(request, timeout=TIMEOUT_S).results]

    def write(self, pieces: Sequence[cache_pb2.WritePiece], request_id: int = 1) -> int:
        """WriteExtents; names session and request in the first piece."""
        pieces[0].session_id, pieces[0].request_id = self.id, request_id
        return self.stub.WriteExtents(iter(pieces), timeout=TIMEOUT_S).written_bytes

    def read(self, request_id: int = 1) -> Iterator[cache_pb2.Piece]:
        """ReadExtents."""
        request = cache_pb2.ReadExtentsRequest(session_id=self.id, request_id=request_id)
        return self.stub.ReadExtents(request, timeout=TIMEOUT_S)

    def store_objects(self, keys: Sequence[ObjectKey], objects: Sequence[bytes], request_id: int = 1) -> None:
        """Stores objects of one size by the transport that is connected."""
        size = len(objects[0])
        if self.handoff is None:
            self.prepare(keys, size, request_id, INLINE)
            self.write(
                [piece for index, data in enumerate(objects) for piece in pieces_of(index, data)], request_id
            )
        else:
            prepared = self.prepare(keys, size, request_id)
            descriptors = self.handoff.receive_all(prepared.descriptor_count)
            for data, number, offset in zip(
                objects, prepared.extents.descriptor, prepared.extents.offset, strict=True
            ):
                os.pwrite(descriptors[number], data, offset)
            close_all(descriptors)
        assert set(self.commit([size] * len(keys), request_id)) == {Result.OK}

    def load_objects(self, keys: Sequence[ObjectKey], size: int, request_id: int = 1) -> dict[int, bytes]:
        """What a load yields, by position, by the transport that is connected."""
        if self.handoff is None:
            self.load(keys, size, request_id, INLINE)
            objects: dict[int, bytes] = {}
            for piece in self.read(request_id):
                objects[piece.position] = objects.get(piece.position, b"") + piece.data
            return objects
        response = self.load(keys, size, request_id)
        extents = response.extents
        descriptors = self.handoff.receive_all(response.descriptor_count)
        columns = zip(extents.position, extents.descriptor, extents.offset, extents.length, strict=True)
        objects = {
            position: os.pread(descriptors[number], length, offset)
            for position, number, offset, length in columns
        }
        close_all(descriptors)
        self.handoff.release(request_id)
        return objects

    def close(self) -> None:
        """Ends the session as a client does that goes away."""
        self.stream.cancel()
        self.channel.close()
        if self.handoff is not None:
            self.handoff.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def pieces_of(position: int, data: bytes, size: int = 1 << 20) -> list[cache_pb2.WritePiece]:
    """One object cut into pieces."""
    return [
        cache_pb2.WritePiece(position=position, offset=offset, data=data[offset : offset + size])
        for offset in range(0, len(data), size)
    ]


def close_all(descriptors: Sequence[int]) -> None:
    """Closes descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)
