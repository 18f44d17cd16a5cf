"""The handoff socket: descriptors to clients on this host, releases back (handoff.proto)."""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterable, Sequence

from google.protobuf.message import DecodeError

from kvchaos.v1 import handoff_pb2
from kvchaos_sidecar.background import Background
from kvchaos_sidecar.errors import HandoffUnavailable, ListenError
from kvchaos_sidecar.metrics import Metrics
from kvchaos_sidecar.rpc.packet_calls import PacketCalls, PacketMethods
from kvchaos_sidecar.rpc.unix_sockets import claim_socket_path, socket_permissions
from kvchaos_sidecar.sessions.registry import SessionRegistry
from kvchaos_sidecar.sessions.session import EndReason, Session
from kvchaos_sidecar.sessions.tickets import LoadTicket

log = logging.getLogger(__name__)

MAX_DESCRIPTORS_PER_PACKET = 253
"""The kernel's SCM_MAX_FD."""
MAX_PACKET_BYTES = 64 * 1024
HELLO_TIMEOUT_S = 5.0
_BACKLOG = 128
_RETRY_S = 0.01
_ACCEPT_RETRY_S = 1.0
"""Long enough that a process without descriptors left does not fill its log."""
_CREDENTIALS = struct.Struct("3i")

Released = Callable[[Session, LoadTicket, Sequence[int]], None]


class HandoffConnection:
    """A client's connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = asyncio.Lock()

    async def send_descriptors(self, request_id: int, descriptors: Sequence[int]) -> None:
        """Passes descriptors, in packets of at most 253. A client that does not take them delays only itself.

        Raises:
            HandoffUnavailable: the connection has ended.
        """
        async with self._sending:
            for first in range(0, len(descriptors), MAX_DESCRIPTORS_PER_PACKET):
                header = handoff_pb2.Descriptors(request_id=request_id, first_index=first)
                packet = handoff_pb2.DaemonPacket(descriptors=header)
                await self._send(packet, descriptors[first : first + MAX_DESCRIPTORS_PER_PACKET])

    async def send_answer(
        self, answer: handoff_pb2.Answer, request_id: int, descriptors: Sequence[int]
    ) -> None:
        """Answers a call, and passes the descriptors of a request with it.

        Raises:
            HandoffUnavailable: the connection has ended.
        """
        if len(descriptors) > MAX_DESCRIPTORS_PER_PACKET:
            await self.send_descriptors(request_id, descriptors)
            descriptors = ()
        if descriptors:
            answer.descriptors.request_id = request_id
        async with self._sending:
            await self._send(handoff_pb2.DaemonPacket(answer=answer), descriptors)

    async def send_welcome(self, refusal: str = "") -> None:
        """Answers Hello; with a refusal when it is not empty."""
        welcome = handoff_pb2.Welcome(accepted=not refusal, refusal=refusal)
        async with self._sending:
            await self._send(handoff_pb2.DaemonPacket(welcome=welcome), ())

    async def receive(self) -> handoff_pb2.ClientPacket | None:
        """The next packet; None when the connection has ended. Descriptors that come with it are dropped.

        Raises:
            DecodeError: the packet is malformed or too long.
        """
        try:
            return _decode(await asyncio.get_running_loop().sock_recv(self._socket, MAX_PACKET_BYTES + 1))
        except OSError:
            return None

    async def read(self, take: Callable[[handoff_pb2.ClientPacket], None]) -> None:
        """Gives every packet to ``take`` as it arrives, until the connection ends.

        Raises:
            DecodeError: a packet is malformed, or ``take`` raised that.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def readable() -> None:
            try:
                packet = self._read_packet()
                if packet is not None:
                    take(packet)
                    return
            except BlockingIOError:
                return
            except DecodeError as error:
                ended.set_exception(error)
            except OSError:
                ended.set_result(None)
            else:
                ended.set_result(None)
            loop.remove_reader(self._socket)

        loop.add_reader(self._socket, readable)
        try:
            await ended
        finally:
            loop.remove_reader(self._socket)

    def peer_uid(self) -> int:
        """User id of the client's process when it connected."""
        credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _pid, uid, _gid = _CREDENTIALS.unpack(credentials)
        return int(uid)

    def close(self) -> None:
        """Ends the connection: the client sees it at once. Idempotent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    async def dispose(self) -> None:
        """Frees the socket once nobody sends on it any more."""
        self.close()
        async with self._sending:
            self._socket.close()

    def _read_packet(self) -> handoff_pb2.ClientPacket | None:
        return _decode(self._socket.recv(MAX_PACKET_BYTES + 1))

    async def _send(self, packet: handoff_pb2.DaemonPacket, descriptors: Sequence[int]) -> None:
        payload = packet.SerializeToString()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        while True:
            try:
                self._socket.sendmsg([payload], [rights] if descriptors else [])
                return
            except BlockingIOError:
                await self._writable()
            except OSError as error:
                if error.errno != errno.ETOOMANYREFS:
                    raise HandoffUnavailable(f"the handoff connection ended: {error.strerror}") from error
                await asyncio.sleep(_RETRY_S)  # too many descriptors in flight: no event says when fewer are

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        writable = asyncio.Event()
        loop.add_writer(self._socket, writable.set)
        try:
            await writable.wait()
        finally:
            loop.remove_writer(self._socket)


class HandoffListener:
    """Accepts clients that belong to an open session and to an allowed user."""

    def __init__(
        self,
        path: str,
        sessions: SessionRegistry,
        allowed_uids: Iterable[int],
        released: Released,
        methods: PacketMethods,
        metrics: Metrics,
    ) -> None:
        """``released`` hears when a client is done with a load, and which positions did not arrive whole."""
        self._methods = methods
        self.path = path
        self._sessions = sessions
        self._allowed_uids = frozenset(allowed_uids)
        self._released = released
        self._metrics = metrics
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._tasks = Background()

    async def start(self) -> None:
        """Listens. Raises ListenError when the path cannot be used."""
        claim_socket_path(self.path)
        self._socket.setblocking(False)
        try:
            with socket_permissions():
                self._socket.bind(self.path)
        except OSError as error:
            raise ListenError(f"cannot listen on {self.path}: {error.strerror}") from error
        self._socket.listen(_BACKLOG)
        self._tasks.spawn("handoff-accept", self._accept_all())

    async def close(self) -> None:
        """Ends the listener and every connection."""
        await self._tasks.close()
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    async def _accept_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                log.warning("cannot accept a handoff connection: %s", error)
                await asyncio.sleep(_ACCEPT_RETRY_S)
                continue
            self._tasks.spawn("handoff-connection", self._serve(HandoffConnection(accepted)))

    async def _serve(self, connection: HandoffConnection) -> None:
        session = None
        try:
            session = await self._admit(connection)
            if session is not None:
                await self._converse(session, connection)
        except (DecodeError, HandoffUnavailable, TimeoutError) as error:
            log.warning("a handoff connection was dropped: %s", error or "no Hello in time")
        finally:
            if session is not None:
                self._sessions.end(session, EndReason.HANDOFF_LOST)
            await connection.dispose()

    async def _admit(self, connection: HandoffConnection) -> Session | None:
        packet = await asyncio.wait_for(connection.receive(), HELLO_TIMEOUT_S)
        if packet is None:
            return None
        uid = connection.peer_uid()
        session = self._sessions.get(packet.hello.session_id)
        refusal = self._refusal_by_uid(uid)
        if not refusal and (session is None or not session.token.redeem(packet.hello.token)):
            refusal = "the session or its token is not known, was used or has expired; open a new session"
        if refusal or session is None:
            self._metrics.handoff_refused()
            log.warning("a handoff connection was refused: %s", refusal)
            await connection.send_welcome(refusal)
            return None
        session.attach(connection, uid)
        return session

    def _refusal_by_uid(self, uid: int) -> str:
        if uid in self._allowed_uids:
            return ""
        allowed = ", ".join(map(str, sorted(self._allowed_uids)))
        return f"user id {uid} may not receive descriptors; add it to handoff.allow_uids (now: {allowed})"

    async def _converse(self, session: Session, connection: HandoffConnection) -> None:
        calls = PacketCalls(self._methods, connection.send_answer)

        def take(packet: handoff_pb2.ClientPacket) -> None:
            match packet.WhichOneof("packet"):
                case "call":
                    calls.start(packet.call)
                case "release":
                    self._release(session, packet.release)
                case "cancel":
                    calls.cancel(packet.cancel.call_id)
                case _:
                    raise DecodeError("expected a Call, a Release or a Cancel")

        await connection.send_welcome()
        try:
            await connection.read(take)
        finally:
            calls.close()

    def _release(self, session: Session, release: handoff_pb2.Release) -> None:
        ticket = session.loads.get(release.request_id)
        if ticket is not None:
            self._released(session, ticket, release.failed_position)


def _decode(packet: bytes) -> handoff_pb2.ClientPacket | None:
    """None for the empty packet that is the end. Raises DecodeError."""
    if len(packet) > MAX_PACKET_BYTES:
        raise DecodeError(f"a packet has more than {MAX_PACKET_BYTES} bytes")
    return handoff_pb2.ClientPacket.FromString(packet) if packet else None


def require_read_only(descriptors: Sequence[int]) -> None:
    """Checks that nobody can change an object through a descriptor that is handed out for reading.

    Raises:
        RuntimeError: one of them is writable and not sealed, which is a mistake in the backend.
    """
    for descriptor in descriptors:
        writable = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        if writable and not _is_sealed(descriptor):
            raise RuntimeError("the backend yielded a writable descriptor for reading")


def _is_sealed(descriptor: int) -> bool:
    try:
        return bool(fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE)
    except OSError:
        return False
