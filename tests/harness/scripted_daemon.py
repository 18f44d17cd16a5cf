"""A daemon whose answers a test writes: the real protocol over real sockets, and nothing behind it.

For what a sound sidecar never does: contradictory grants, missing descriptors, silence at the wrong moment.
"""

from __future__ import annotations

import array
import contextlib
import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any, NoReturn

import grpc

from kvchaos.packet_calls import FIELDS
from kvchaos.protocol import PROTOCOL_VERSION
from kvchaos.v1 import cache_pb2, cache_pb2_grpc, handoff_pb2

Answer = Callable[[Any, Any], Any]


class ScriptedDaemon(cache_pb2_grpc.L2CacheServicer):
    """Serves the cache socket and the handoff socket in ``directory``; other calls than OpenSession are set
    by the test as ``answers["Load"] = function(request, context)``."""

    def __init__(self, directory: Path, handoff: bool = True, **opened: Any) -> None:
        self.answers: dict[str, Answer] = {}
        self.sessions: list[str] = []
        self.releases: queue.Queue[handoff_pb2.Release] = queue.Queue()
        self.target = f"unix:{directory}/cache.sock"
        self.connections: list[socket.socket] = []
        self._opened = opened
        self._events: list[queue.Queue[cache_pb2.SessionEvent | None]] = []
        self._handoff_path = str(directory / "handoff.sock") if handoff else ""
        self._connected = threading.Condition()
        if handoff:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._listener.bind(self._handoff_path)
            self._listener.listen()
            threading.Thread(target=self._accept_all, daemon=True).start()
        self._server = grpc.server(futures.ThreadPoolExecutor(16))
        cache_pb2_grpc.add_L2CacheServicer_to_server(self, self._server)
        self._server.add_insecure_port(self.target)
        self._server.start()

    def OpenSession(
        self, request: cache_pb2.OpenSessionRequest, context: grpc.ServicerContext
    ) -> Iterator[cache_pb2.SessionEvent]:
        """Opens a session with the events that :meth:`tell` sends."""
        events: queue.Queue[cache_pb2.SessionEvent | None] = queue.Queue()
        self._events.append(events)
        self.sessions.append(f"session-{len(self.sessions) + 1}")
        facts = {"backend": "scripted", "protocol_version": PROTOCOL_VERSION, **self._opened}
        opened = cache_pb2.SessionOpened(session_id=self.sessions[-1], **facts)
        if self._handoff_path:
            opened.handoff.socket_path = self._handoff_path
            opened.handoff.token = b"token"
        context.add_callback(lambda: events.put(None))
        yield cache_pb2.SessionEvent(opened=opened)
        while (event := events.get()) is not None:
            yield event

    def CloseSession(
        self, request: cache_pb2.CloseSessionRequest, context: grpc.ServicerContext
    ) -> cache_pb2.CloseSessionResponse:
        """Takes note."""
        return cache_pb2.CloseSessionResponse()

    def tell(self, event: cache_pb2.SessionEvent | None) -> None:
        """Sends an event on the newest session's stream; None ends the stream."""
        self._events[-1].put(event)

    def send_descriptors(self, request_id: int, descriptors: Sequence[int], first_index: int = 0) -> None:
        """Passes descriptors on the newest handoff connection."""
        header = handoff_pb2.Descriptors(request_id=request_id, first_index=first_index)
        packet = handoff_pb2.DaemonPacket(descriptors=header).SerializeToString()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        self.connection().sendmsg([packet], rights)

    def connection(self) -> socket.socket:
        """The newest handoff connection, once there is one."""
        with self._connected:
            self._connected.wait_for(lambda: self.connections)
            return self.connections[-1]

    def close(self) -> None:
        """Ends everything at once."""
        for events in self._events:
            events.put(None)
        self._server.stop(None).wait()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self._handoff_path:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _accept_all(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.recv(65536)
        welcome = handoff_pb2.DaemonPacket(welcome=handoff_pb2.Welcome(accepted=True))
        connection.send(welcome.SerializeToString())
        with self._connected:
            self.connections.append(connection)
            self._connected.notify_all()
        with contextlib.suppress(OSError):
            while payload := connection.recv(65536):
                packet = handoff_pb2.ClientPacket.FromString(payload)
                if packet.HasField("release"):
                    self.releases.put(packet.release)
                elif packet.HasField("call"):
                    threading.Thread(target=self._answer, args=(connection, packet.call), daemon=True).start()
        connection.close()

    def _answer(self, connection: socket.socket, call: handoff_pb2.Call) -> None:
        """Answers a call that came in a packet as the same call by gRPC would be answered."""
        name = call.WhichOneof("request") or ""
        try:
            response = self.answers[_METHODS[name]](getattr(call, name), _PacketContext())
            answer = handoff_pb2.Answer(call_id=call.call_id, **{name: response})
        except _Aborted as aborted:
            answer = handoff_pb2.Answer(call_id=call.call_id, failure=aborted.failure)
        except Exception as error:
            failure = handoff_pb2.Failure(status_code=grpc.StatusCode.UNKNOWN.value[0], message=repr(error))
            answer = handoff_pb2.Answer(call_id=call.call_id, failure=failure)
        with contextlib.suppress(OSError):
            connection.send(handoff_pb2.DaemonPacket(answer=answer).SerializeToString())


class _Aborted(Exception):
    def __init__(self, failure: handoff_pb2.Failure) -> None:
        self.failure = failure


class _PacketContext:
    """What an answer can do to a call that came in a packet."""

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """Fails the call."""
        raise _Aborted(handoff_pb2.Failure(status_code=code.value[0], message=details))


_METHODS = {field: method for method, field in FIELDS.items()}


def _scripted(method: str) -> Any:
    def answer(self: ScriptedDaemon, request: Any, context: grpc.ServicerContext) -> Any:
        return self.answers[method](request, context)

    return answer


for _method in (
    "LookupAndLock",
    "Unlock",
    "Load",
    "ReadExtents",
    "PrepareStore",
    "WriteExtents",
    "CommitStore",
    "Delete",
    "ListKeys",
    "GetUsage",
    "GetCacheStatus",
):
    setattr(ScriptedDaemon, _method, _scripted(_method))


def open_descriptors() -> set[str]:
    """What this process has open, each as ``number -> target``; to compare before and after."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add(f"{number} -> {os.readlink(f'/proc/self/fd/{number}')}")
    return found
