"""One open session with a daemon: its stream, its transport, and what it was told."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import grpc

from kvchaos import __version__
from kvchaos.answers import Outcome, finished
from kvchaos.channel import bearer, status_error, translate
from kvchaos.errors import (
    DeadlineExceeded,
    HandoffRefused,
    OperationUnsupported,
    SidecarError,
    SidecarUnavailable,
    VersionMismatch,
)
from kvchaos.handoff import HandoffConnection, connect_handoff
from kvchaos.pieces import PieceStub
from kvchaos.protocol import PROTOCOL_VERSION, mismatch
from kvchaos.reports import FaultsInForce, read_faults
from kvchaos.v1 import cache_pb2


class Transport(StrEnum):
    """How the bytes of a session move."""

    HANDOFF = "handoff"
    """Descriptors over a Unix socket; the bytes do not pass through the daemon."""
    INLINE = "inline"
    """Pieces in gRPC messages."""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What a daemon says about itself when a session opens."""

    session_id: str
    backend: str
    """Type of the store behind the daemon."""
    capacity_bytes: int
    """0 when the store has no limit or none is known."""
    daemon_version: str
    transport: Transport
    transport_reason: str
    """Why this transport, for a person."""
    piece_size_bytes: int
    grant_ttl_s: float
    """How long a grant lasts; 0 when the daemon does not say."""

    @property
    def short_id(self) -> str:
        """The first eight characters of the session id, as the daemon's status shows it."""
        return self.session_id[:8]


class Session:
    """An open session. Safe to use from several threads.

    Made by :func:`open_session`; ends when its stream does, for whatever reason, and never comes back.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        stub: PieceStub,
        stream: Any,
        facts: SessionFacts,
        faults: FaultsInForce,
        metadata: tuple[tuple[str, str], ...],
    ) -> None:
        self.facts = facts
        self.stub = stub
        self.metadata = metadata
        self.handoff: HandoffConnection | None = None
        self.faults = faults
        self._channel = channel
        self._stream = stream
        self._request_ids = itertools.count(1)
        self._ended = threading.Event()
        self._cause: SidecarError = SidecarUnavailable("the session was closed")

    @property
    def id(self) -> str:
        """The session id, for requests."""
        return self.facts.session_id

    @property
    def ended(self) -> bool:
        """Whether the session is over, and its locks and grants with it."""
        return self._ended.is_set()

    def next_request_id(self) -> int:
        """A number for a load or a store, unique within the session."""
        return next(self._request_ids)

    def call(self, method: str, request: Any, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        """Starts a unary call; ``done`` gets its outcome when it is over, on a thread that must not wait.

        It is made on the handoff connection where that takes it, else by gRPC. An answer that the daemon
        does not know the session ends the session.

        Raises:
            SidecarUnavailable: the session is over.
        """

        def ended(outcome: Outcome) -> None:
            if outcome.code is grpc.StatusCode.NOT_FOUND:
                self.end(status_error(outcome.code, outcome.details))
            done(outcome)

        if self.handoff is not None and self.handoff.call(method, request, timeout_s, ended):
            return
        start = getattr(self.stub, method).future
        try:
            call = start(request, timeout=timeout_s, metadata=self.metadata)
        except ValueError as error:
            raise SidecarUnavailable(f"the session is over: {error}") from error
        call.add_done_callback(lambda call: ended(finished(call)))

    def follow(self, on_faults: Callable[[FaultsInForce], None]) -> SidecarError:
        """Reads the stream until the session is over, and returns why it is."""
        try:
            for event in self._stream:
                if event.WhichOneof("event") == "fault_inject":
                    self.faults = read_faults(event.fault_inject)
                    on_faults(self.faults)
            cause: SidecarError = SidecarUnavailable("the daemon ended the session")
        except grpc.RpcError as error:
            cause = self._cause if self.ended else translate(error)
        self._ended.set()
        return cause

    def end(self, cause: SidecarError) -> None:
        """Ends the session from this side, for ``cause``. Does not wait. Idempotent."""
        if not self.ended:
            self._cause = cause
            self._ended.set()
        self._stream.cancel()

    def leave(self, timeout_s: float) -> None:
        """Tells the daemon that the session ends on purpose; a daemon that does not answer is left anyway."""
        if self.ended:
            return
        request = cache_pb2.CloseSessionRequest(session_id=self.id)
        with contextlib.suppress(grpc.RpcError, ValueError):  # what grpc raises on a closed channel
            self.stub.CloseSession(request, timeout=timeout_s, metadata=self.metadata)

    def close(self) -> None:
        """Ends the session and everything that belongs to it. Calls in flight fail. Idempotent."""
        self.end(SidecarUnavailable("the session was closed"))
        self._channel.close()
        if self.handoff is not None:
            self.handoff.close()


def open_session(
    channel: grpc.Channel, client_name: str, token: str, use_handoff: bool, timeout_s: float
) -> Session:
    """Opens a session over ``channel``, which then belongs to it.

    Raises:
        SidecarError: the daemon cannot be reached, refuses, or does not answer in ``timeout_s``.
    """
    stub = PieceStub(channel)
    metadata = bearer(token)
    request = cache_pb2.OpenSessionRequest(
        client_name=client_name, client_version=__version__, protocol_version=PROTOCOL_VERSION
    )
    stream = stub.OpenSession(request, metadata=metadata)
    opened = _first_event(stream, timeout_s)
    reason = mismatch(__version__, PROTOCOL_VERSION, opened.daemon_version, opened.protocol_version)
    if reason:
        raise VersionMismatch(reason)
    if not opened.session_id:
        raise SidecarError("the daemon opened a session without an id")
    connection, reason = _handoff(opened, use_handoff, timeout_s)
    facts = SessionFacts(
        session_id=opened.session_id,
        backend=opened.backend,
        capacity_bytes=opened.capacity_bytes,
        daemon_version=opened.daemon_version,
        transport=Transport.INLINE if connection is None else Transport.HANDOFF,
        transport_reason=reason,
        piece_size_bytes=opened.piece_size_bytes,
        grant_ttl_s=opened.grant_ttl_s,
    )
    faults = read_faults(opened.fault_inject)
    session = Session(channel, stub, stream, facts, faults, metadata)
    if connection is not None:
        lost = SidecarUnavailable("the handoff connection was lost")
        session.handoff = HandoffConnection(connection, lambda: session.end(lost))
    return session


def _first_event(stream: Iterator[cache_pb2.SessionEvent], timeout_s: float) -> cache_pb2.SessionOpened:
    late = threading.Event()

    def give_up() -> None:
        late.set()
        stream.cancel()  # type: ignore[attr-defined]

    timer = threading.Timer(timeout_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        event = next(stream)
    except StopIteration:
        raise SidecarUnavailable("the daemon ended the session before it began") from None
    except grpc.RpcError as error:
        if late.is_set():
            raise DeadlineExceeded(f"no answer within {timeout_s:g} s") from error
        raise _refusal(error) from error
    finally:
        timer.cancel()
    return event.opened


def _refusal(error: grpc.RpcError) -> SidecarError:
    """What a daemon that opens no session says."""
    refusal = translate(error)
    if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.FAILED_PRECONDITION:
        return VersionMismatch(str(refusal))
    if isinstance(refusal, OperationUnsupported):
        return VersionMismatch(
            f"what answers does not know kvchaos.v1.L2Cache, which kvchaos {__version__} speaks; give the "
            "address of a sidecar's cache listener (not the control listener), of the same version"
        )
    return refusal


def _handoff(opened: cache_pb2.SessionOpened, wanted: bool, timeout_s: float) -> tuple[Any | None, str]:
    if not wanted:
        return None, "handoff is switched off in the client"
    if not opened.HasField("handoff"):
        return None, "the daemon offers no handoff on this address"
    offer = opened.handoff
    try:
        connection = connect_handoff(offer.socket_path, opened.session_id, offer.token, timeout_s)
    except HandoffRefused as refusal:
        return None, f"handoff is not possible: {refusal}"
    return connection, f"descriptors over {offer.socket_path}"
