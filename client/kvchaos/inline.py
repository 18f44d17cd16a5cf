"""Bytes in gRPC messages, piece by piece, for a daemon on another host."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

import grpc

from kvchaos.answers import read_result
from kvchaos.channel import translate
from kvchaos.deadline import Deadline
from kvchaos.errors import DeadlineExceeded, RequestRefused, SessionEnded, SidecarUnavailable
from kvchaos.pieces import Piece, WritePiece
from kvchaos.results import Result
from kvchaos.session import Session
from kvchaos.v1 import cache_pb2

DEFAULT_PIECE_BYTES = 1024 * 1024

_RESULT_BY_ERROR: tuple[tuple[type[Exception], Result], ...] = (
    (DeadlineExceeded, Result.TIMED_OUT),
    (SidecarUnavailable, Result.UNAVAILABLE),
    (SessionEnded, Result.UNAVAILABLE),
    (RequestRefused, Result.TIMED_OUT),  # the grants have expired
    (ValueError, Result.UNAVAILABLE),  # what grpc raises on a closed channel
)


def read_pieces(
    session: Session,
    request_id: int,
    buffers: Mapping[int, memoryview],
    deadline: Deadline,
    arrived: Callable[[int], None] | None = None,
) -> dict[int, Result]:
    """Receives the granted bytes of a load into ``buffers``, by position. Returns what failed, and why.

    Args:
        arrived: called with each position whose object has come whole.
    """
    reception = _Reception(buffers, arrived)
    request = cache_pb2.ReadExtentsRequest(session_id=session.id, request_id=request_id)
    missing = Result.IO_ERROR
    try:
        pieces = session.stub.ReadExtents(request, timeout=deadline.remaining_s, metadata=session.metadata)
        for piece in pieces:
            reception.take(piece)
    except (grpc.RpcError, ValueError) as error:
        missing = _failure(error)
    return reception.failures(missing)


def write_pieces(
    session: Session, request_id: int, buffers: Mapping[int, memoryview], deadline: Deadline
) -> dict[int, Result]:
    """Sends ``buffers`` as the granted bytes of a store, by position. Returns what failed, and why.

    What the daemon could not write it says when the store is committed.
    """
    size = session.facts.piece_size_bytes or DEFAULT_PIECE_BYTES
    outgoing = _Outgoing(session.id, request_id, buffers, size)
    try:
        session.stub.WriteExtents(iter(outgoing), timeout=deadline.remaining_s, metadata=session.metadata)
    except (grpc.RpcError, ValueError) as error:
        return dict.fromkeys(buffers, _failure(error))
    finally:
        outgoing.stop()
    return {}


class _Reception:
    """Puts pieces where they belong, and never outside."""

    def __init__(self, buffers: Mapping[int, memoryview], arrived: Callable[[int], None] | None) -> None:
        self._buffers = buffers
        self._arrived = arrived
        self._filled = dict.fromkeys(buffers, 0)
        self._outcome: dict[int, Result] = {}

    def take(self, piece: Piece) -> None:
        position = piece.position
        if position not in self._buffers or position in self._outcome:
            return
        if piece.failure:
            self._outcome[position] = read_result(piece.failure)
            return
        start = self._filled[position]
        end = start + len(piece.data)
        if end > self._buffers[position].nbytes:
            self._outcome[position] = Result.SIZE_MISMATCH
            return
        self._buffers[position][start:end] = piece.data
        self._filled[position] = end
        if piece.last:
            whole = end == self._buffers[position].nbytes
            self._outcome[position] = Result.OK if whole else Result.IO_ERROR
            if whole and self._arrived is not None:
                self._arrived(position)

    def failures(self, missing: Result) -> dict[int, Result]:
        """What failed; ``missing`` is the reason for what never came to its last piece."""
        outcome = {position: self._outcome.get(position, missing) for position in self._buffers}
        return {position: result for position, result in outcome.items() if result is not Result.OK}


class _Outgoing:
    """The pieces of a store, cut on demand, so that gRPC's back-pressure reaches the buffers."""

    def __init__(
        self, session_id: str, request_id: int, buffers: Mapping[int, memoryview], piece_size: int
    ) -> None:
        self._session_id = session_id
        self._request_id = request_id
        self._buffers = buffers
        self._piece_size = piece_size
        self._lock = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """No buffer is read any more once this returns."""
        with self._lock:
            self._stopped = True

    def __iter__(self) -> Iterator[WritePiece]:
        session_id = self._session_id
        for position, buffer in self._buffers.items():
            for start in range(0, buffer.nbytes, self._piece_size):
                with self._lock:
                    if self._stopped:
                        return
                    data = bytes(buffer[start : start + self._piece_size])
                yield WritePiece(
                    session_id=session_id,
                    request_id=self._request_id,
                    position=position,
                    offset=start,
                    data=data,
                )
                session_id = ""


def _failure(error: Exception) -> Result:
    cause = translate(error) if isinstance(error, grpc.RpcError) else error
    return next((result for kind, result in _RESULT_BY_ERROR if isinstance(cause, kind)), Result.IO_ERROR)
