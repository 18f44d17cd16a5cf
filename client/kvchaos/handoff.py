"""The handoff connection: calls to the daemon and open file descriptors from it, over a Unix socket.

Descriptors of several requests arrive interleaved. Whoever waits for a request's holds a :class:`Delivery`;
descriptors that nobody waits for are closed as they arrive, so none is ever leaked.
"""

from __future__ import annotations

import array
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from kvchaos.answers import Outcome
from kvchaos.errors import HandoffRefused, SidecarUnavailable
from kvchaos.packet_calls import Done, PacketCalls, wrap
from kvchaos.v1 import handoff_pb2

logger = logging.getLogger(__name__)

MAX_DESCRIPTORS_PER_PACKET = 253
MAX_PACKET_BYTES = 64 * 1024
_ANCILLARY_BYTES = socket.CMSG_SPACE(MAX_DESCRIPTORS_PER_PACKET * array.array("i").itemsize)


class Delivery:
    """The descriptors of one request, as they arrive."""

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self._changed = threading.Condition()
        self._descriptors: dict[int, int] = {}
        self._failure: Exception | None = None
        self._ended = False

    def take(self, count: int, timeout_s: float) -> list[int]:
        """Waits for ``count`` descriptors, in order. The caller owns them and ends the delivery's life.

        Raises:
            SidecarUnavailable: the connection was lost, or they did not arrive in time.
        """
        with self._changed:
            complete = self._changed.wait_for(
                lambda: self._failure is not None or len(self._descriptors) >= count, timeout_s
            )
            if self._failure is not None:
                raise SidecarUnavailable(str(self._failure)) from self._failure
            if not complete or set(self._descriptors) != set(range(count)):
                numbers = sorted(self._descriptors)
                raise SidecarUnavailable(f"expected descriptors 0 to {count - 1}, got {numbers}")
            taken = [self._descriptors[index] for index in range(count)]
            self._descriptors = {}
        return taken

    def add(self, first_index: int, descriptors: Sequence[int]) -> None:
        """Takes what arrived; closes it when the delivery has ended or the place is taken."""
        with self._changed:
            for index, descriptor in enumerate(descriptors, first_index):
                if self._ended or index in self._descriptors:
                    os.close(descriptor)
                else:
                    self._descriptors[index] = descriptor
            self._changed.notify_all()

    def fail(self, failure: Exception) -> None:
        """Nothing more will arrive."""
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    def end(self) -> None:
        """Closes what was not taken, now and later. Idempotent."""
        with self._changed:
            self._ended = True
            close_all(self._descriptors.values())
            self._descriptors = {}


class HandoffConnection:
    """A connection to the daemon's handoff socket, with one thread that receives."""

    def __init__(
        self,
        connection: socket.socket,
        on_lost: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Takes over a connection that was welcomed.

        Args:
            on_lost: called once, when it ends by itself.
            clock: seconds that only grow.
        """
        self._socket = connection
        self._on_lost = on_lost
        self._calls = PacketCalls(self._cancel, clock)
        self._lock = threading.Lock()
        self._deliveries: dict[int, Delivery] = {}
        self._closed = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._receive_all, name="kvchaos-handoff", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether nothing more can arrive."""
        return self._failure is not None

    def call(self, method: str, request: Any, timeout_s: float, done: Done) -> bool:
        """Makes a call, unless it has to be made by gRPC: then returns False, and nothing has happened.

        ``done`` gets the outcome on a thread of the connection.
        """
        call = wrap(method, request)
        if call is None:
            return False
        call_id = self._calls.open(timeout_s, done)
        if call_id is None:
            return False
        call.call_id = call_id
        return self._send(handoff_pb2.ClientPacket(call=call)) or not self._calls.withdraw(call_id)

    def open_delivery(self, request_id: int) -> Delivery:
        """Waits for the descriptors of a request from now on, until :meth:`close_delivery`."""
        delivery = Delivery(request_id)
        with self._lock:
            if self._failure is not None:
                delivery.fail(self._failure)
            self._deliveries[request_id] = delivery
        return delivery

    def close_delivery(self, delivery: Delivery) -> None:
        """Stops waiting. What arrives later for it is closed at once. Idempotent."""
        with self._lock:
            self._deliveries.pop(delivery.request_id, None)
        delivery.end()

    def release(self, request_id: int, failed_positions: Iterable[int] = ()) -> None:
        """Tells the daemon that a load is over. A daemon that does not read is not waited for."""
        release = handoff_pb2.Release(request_id=request_id, failed_position=sorted(failed_positions))
        self._send(handoff_pb2.ClientPacket(release=release))

    def close(self) -> None:
        """Ends the connection and its thread. Idempotent."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _receive_all(self) -> None:
        failure: Exception
        try:
            while True:
                packet, descriptors, whole = receive_packet(self._socket)
                if not packet:
                    failure = SidecarUnavailable("the daemon closed the handoff connection")
                    break
                self._take(packet, descriptors, whole)
        except (OSError, DecodeError) as error:
            failure = SidecarUnavailable(f"the handoff connection failed: {error}")
        self._end(failure)

    def _cancel(self, call_id: int) -> None:
        self._send(handoff_pb2.ClientPacket(cancel=handoff_pb2.Cancel(call_id=call_id)))

    def _send(self, packet: handoff_pb2.ClientPacket) -> bool:
        """Sends a packet unless that would have to wait. Says whether it went out."""
        payload = packet.SerializeToString()
        if len(payload) > MAX_PACKET_BYTES:
            return False
        try:
            with self._lock:
                self._socket.send(payload, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            return False
        return True

    def _take(self, packet: bytes, descriptors: list[int], whole: bool) -> None:
        try:
            message = handoff_pb2.DaemonPacket.FromString(packet)
        except DecodeError:
            close_all(descriptors)
            raise
        carrier = message.answer if message.HasField("answer") else message
        if carrier.HasField("descriptors"):
            self._deliver(carrier.descriptors, descriptors, whole)
        else:
            close_all(descriptors)
        if message.HasField("answer"):
            self._calls.answered(message.answer)

    def _deliver(self, header: handoff_pb2.Descriptors, descriptors: list[int], whole: bool) -> None:
        with self._lock:
            delivery = self._deliveries.get(header.request_id)
        if delivery is None:
            close_all(descriptors)
            self.release(header.request_id)
            return
        delivery.add(header.first_index, descriptors)
        if not whole:
            delivery.fail(
                SidecarUnavailable("descriptors were lost on the way; is the limit of open files reached?")
            )

    def _end(self, failure: Exception) -> None:
        with self._lock:
            self._failure = failure
            deliveries = list(self._deliveries.values())
        for delivery in deliveries:
            delivery.fail(failure)
        self._calls.close(Outcome(grpc.StatusCode.UNAVAILABLE, str(failure), None))
        with self._lock:
            self._socket.close()
        if not self._closed:
            self._on_lost()


def connect_handoff(path: str, session_id: str, token: bytes, timeout_s: float) -> socket.socket:
    """Connects and introduces itself.

    Raises:
        HandoffRefused: the socket cannot be reached from here, or the daemon refuses; the message says why.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(timeout_s)
        connection.connect(path)
        hello = handoff_pb2.Hello(session_id=session_id, token=token)
        connection.send(handoff_pb2.ClientPacket(hello=hello).SerializeToString())
        packet, descriptors, _ = receive_packet(connection)
        close_all(descriptors)
        _check_welcome(packet)
        connection.settimeout(None)
    except (OSError, DecodeError) as error:
        connection.close()
        raise HandoffRefused(f"{path}: {error}") from error
    except HandoffRefused:
        connection.close()
        raise
    return connection


def receive_packet(connection: socket.socket) -> tuple[bytes, list[int], bool]:
    """One packet, its descriptors (close-on-exec) and whether all of them arrived. Empty at the end."""
    packet, ancillary, flags, _ = connection.recvmsg(
        MAX_PACKET_BYTES, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return packet, list(descriptors), not flags & socket.MSG_CTRUNC


def close_all(descriptors: Iterable[int]) -> None:
    """Closes every descriptor, also when closing one fails."""
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError:
            continue


def _check_welcome(packet: bytes) -> None:
    if not packet:
        raise HandoffRefused("the daemon closed the connection without an answer")
    welcome = handoff_pb2.DaemonPacket.FromString(packet).welcome
    if not welcome.accepted:
        raise HandoffRefused(welcome.refusal or "the daemon refused without a reason")
