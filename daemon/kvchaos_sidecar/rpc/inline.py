"""Inline transport: the bytes of a ticket as bounded pieces in gRPC streams.

gRPC's flow control is the back-pressure: the next piece is read only when the last one has gone out, and the
next one is taken only when the last one is written. So a stream holds one piece, not a batch.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import grpc

from kvchaos.pieces import (
    SERVICE,
    Data,
    Piece,
    WritePiece,
    decode_write_piece,
    encode_piece,
)
from kvchaos.results import Result
from kvchaos.v1 import cache_pb2, cache_pb2_grpc
from kvchaos_sidecar.backends.contract import Extent
from kvchaos_sidecar.errors import InvalidRequest
from kvchaos_sidecar.rpc.convert import results_to_wire
from kvchaos_sidecar.sessions.session import Session
from kvchaos_sidecar.sessions.tickets import LoadTicket, StoreTicket, Ticket

PIECE_SIZE_BYTES = 2 << 20

ValueT = TypeVar("ValueT")


class InlineTransfer:
    """Reads and writes the extents of tickets, on threads of its own."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads

    async def read(self, session: Session, ticket: LoadTicket) -> AsyncGenerator[Piece, None]:
        """Every granted byte, in the order of the grants. An object that cannot be read whole ends in a
        piece that says so.

        Raises:
            InvalidRequest: the ticket was granted for handoff.
            UnknownTicket: the ticket has expired.
        """
        _require_inline(ticket)
        for position, lease in list(ticket.grants.items()):
            offset, length = 0, lease.extent.length
            while offset < length:
                session.loads.renew(ticket)
                size = min(PIECE_SIZE_BYTES, length - offset)
                data = await self._on_thread(ticket, _read, lease.extent, offset, size)
                if isinstance(data, Result):
                    yield Piece(position=position, last=True, failure=results_to_wire([data])[0])
                    break
                offset += size
                yield Piece(position=position, data=data, last=offset == length)

    async def write(self, session: Session, ticket: StoreTicket, piece: WritePiece) -> int:
        """Writes one piece. Returns the bytes taken: 0 when its object has failed before.

        Raises:
            InvalidRequest: the piece is not the next one of a granted extent.
            UnknownTicket: the ticket has expired.
        """
        _require_inline(ticket)
        ticket.require_open()
        extent = _checked_target(ticket, piece)
        if piece.position in ticket.failures:
            return 0
        session.stores.renew(ticket)
        failure = await self._on_thread(ticket, _write, extent, piece.offset, piece.data)
        if failure is not None:
            ticket.failures[piece.position] = failure
            return 0
        ticket.received[piece.position] = piece.offset + len(piece.data)
        return len(piece.data)

    async def _on_thread(
        self, ticket: Ticket[Any], work: Callable[..., ValueT], *arguments: object
    ) -> ValueT:
        """Runs work on the ticket's descriptors, which stay open until it is done, also when nobody waits."""
        ticket.pin()
        future = asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        future.add_done_callback(lambda _: ticket.unpin())
        return await asyncio.shield(future)


def add_cache_servicer(servicer: cache_pb2_grpc.L2CacheServicer, server: grpc.aio.Server) -> None:
    """Adds the cache service to a server, with :class:`Piece` and :class:`WritePiece` in its byte streams.

    They come first, as the first handler of a method is the one that is called.
    """
    streams: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "ReadExtents": grpc.unary_stream_rpc_method_handler(
            servicer.ReadExtents,
            request_deserializer=cache_pb2.ReadExtentsRequest.FromString,
            response_serializer=encode_piece,
        ),
        "WriteExtents": grpc.stream_unary_rpc_method_handler(
            servicer.WriteExtents,
            request_deserializer=decode_write_piece,
            response_serializer=cache_pb2.WriteExtentsResponse.SerializeToString,
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, streams),))
    cache_pb2_grpc.add_L2CacheServicer_to_server(servicer, server)


def _require_inline(ticket: Ticket[Any]) -> None:
    if not ticket.inline:
        raise InvalidRequest(f"request {ticket.request_id} was granted for TRANSPORT_HANDOFF, not inline")


def _checked_target(ticket: StoreTicket, piece: WritePiece) -> Extent:
    lease = ticket.grants.get(piece.position)
    if lease is None:
        raise InvalidRequest(f"position {piece.position} is not granted")
    size = len(piece.data)
    if not 1 <= size <= PIECE_SIZE_BYTES:
        raise InvalidRequest(f"a piece of {size} bytes is not in [1, {PIECE_SIZE_BYTES}]")
    expected = ticket.received.get(piece.position, 0)
    if piece.offset != expected and piece.position not in ticket.failures:
        raise InvalidRequest(f"position {piece.position}: offset {piece.offset}; expected {expected}")
    if piece.offset + size > lease.extent.length:
        raise InvalidRequest(
            f"position {piece.position}: bytes up to {piece.offset + size}; granted {lease.extent.length}"
        )
    return lease.extent


def _read(extent: Extent, offset: int, size: int) -> bytes | Result:
    """``size`` bytes of an extent; IO_ERROR when they are not all there."""
    chunks = []
    missing = size
    while missing:
        try:
            chunk = os.pread(extent.descriptor, missing, extent.offset + offset + size - missing)
        except OSError:
            return Result.IO_ERROR
        if not chunk:
            return Result.IO_ERROR
        chunks.append(chunk)
        missing -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _write(extent: Extent, offset: int, data: Data) -> Result | None:
    """Writes all of ``data`` into an extent. Returns why it failed, or None."""
    view = memoryview(data)
    written = 0
    while written < len(view):
        try:
            written += os.pwrite(extent.descriptor, view[written:], extent.offset + offset + written)
        except OSError as error:
            no_space = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM)
            return Result.NO_SPACE if no_space else Result.IO_ERROR
    return None
