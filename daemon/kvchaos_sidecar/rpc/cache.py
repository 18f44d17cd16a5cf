"""The L2Cache service: requests in, data plane, answers out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kvchaos.keys import MAX_BATCH_KEYS, decode_keys, encode_keys
from kvchaos.pieces import WritePiece
from kvchaos.protocol import PROTOCOL_VERSION, mismatch
from kvchaos.v1 import cache_pb2, cache_pb2_grpc, common_pb2
from kvchaos_sidecar.backends.contract import Backend
from kvchaos_sidecar.errors import (
    Draining,
    HandoffUnavailable,
    InvalidRequest,
    UnknownSession,
    VersionMismatch,
)
from kvchaos_sidecar.health import HealthMonitor
from kvchaos_sidecar.plane import DataPlane, Judge
from kvchaos_sidecar.rpc.boundary import Boundary, Context
from kvchaos_sidecar.rpc.convert import (
    completion_to_wire,
    extents_to_wire,
    faults_to_wire,
    inline_from_wire,
    poison_to_wire,
    results_to_wire,
    sizes_from_wire,
    unique_descriptors,
)
from kvchaos_sidecar.rpc.granted import Granted
from kvchaos_sidecar.rpc.handoff import require_read_only
from kvchaos_sidecar.rpc.inline import PIECE_SIZE_BYTES, InlineTransfer
from kvchaos_sidecar.rpc.packet_calls import Handler
from kvchaos_sidecar.sessions.registry import SessionRegistry
from kvchaos_sidecar.sessions.session import EndReason, Session
from kvchaos_sidecar.sessions.tickets import LoadTicket, StoreTicket

RequestT = TypeVar("RequestT", cache_pb2.LoadRequest, cache_pb2.PrepareStoreRequest)
ResponseT = TypeVar("ResponseT", cache_pb2.LoadResponse, cache_pb2.PrepareStoreResponse)


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a client is told when its session opens."""

    daemon_version: str
    grant_ttl_s: float
    handoff_path: str | None
    """None when this listener offers no handoff."""


class CacheServicer(cache_pb2_grpc.L2CacheServicer):
    """Serves L2Cache. Every method passes through the boundary, which maps errors and counts."""

    def __init__(
        self,
        plane: DataPlane,
        sessions: SessionRegistry,
        backend: Backend,
        rules: Judge,
        health: HealthMonitor,
        inline: InlineTransfer,
        boundary: Boundary,
        greeting: Greeting,
    ) -> None:
        self._plane = plane
        self._sessions = sessions
        self._backend = backend
        self._rules = rules
        self._health = health
        self._inline = inline
        self._boundary = boundary
        self._greeting = greeting

    @property
    def packet_handlers(self) -> Mapping[str, tuple[str, Handler]]:
        """What answers a call that arrives as a packet, with its operation, by its field there."""
        return {
            "lookup_and_lock": ("lookup", self._lookup),
            "unlock": ("unlock", self._unlock),
            "load": ("load", self._load),
            "prepare_store": ("prepare_store", self._prepare_store),
            "commit_store": ("commit_store", self._commit_store),
        }

    async def OpenSession(self, request: cache_pb2.OpenSessionRequest, context: Context) -> None:
        """Opens a session that lives as long as the stream."""
        await self._boundary.session(context, partial(self._open_session, context), request)

    async def CloseSession(
        self, request: cache_pb2.CloseSessionRequest, context: Context
    ) -> cache_pb2.CloseSessionResponse:
        """Ends a session."""
        return await self._boundary.call("close_session", context, self._close_session, request)

    async def LookupAndLock(
        self, request: cache_pb2.LookupAndLockRequest, context: Context
    ) -> cache_pb2.LookupAndLockResponse:
        """Which keys are present; locks those."""
        return await self._boundary.call("lookup", context, self._lookup, request)

    async def Unlock(self, request: cache_pb2.UnlockRequest, context: Context) -> cache_pb2.UnlockResponse:
        """Takes locks back."""
        return await self._boundary.call("unlock", context, self._unlock, request)

    async def Load(self, request: cache_pb2.LoadRequest, context: Context) -> cache_pb2.LoadResponse:
        """Grants what may be read."""
        return await self._boundary.call("load", context, partial(self._send_first, self._load), request)

    async def ReadExtents(self, request: cache_pb2.ReadExtentsRequest, context: Context) -> None:
        """Streams granted bytes."""
        read = partial(self._read_extents, context)
        await self._boundary.call("read_extents", context, read, request)

    async def PrepareStore(
        self, request: cache_pb2.PrepareStoreRequest, context: Context
    ) -> cache_pb2.PrepareStoreResponse:
        """Grants room to write."""
        prepare = partial(self._send_first, self._prepare_store)
        return await self._boundary.call("prepare_store", context, prepare, request)

    async def WriteExtents(
        self, request_iterator: AsyncIterator[WritePiece], context: Context
    ) -> cache_pb2.WriteExtentsResponse:
        """Takes bytes for granted room."""
        return await self._boundary.call("write_extents", context, self._write_extents, request_iterator)

    async def CommitStore(
        self, request: cache_pb2.CommitStoreRequest, context: Context
    ) -> cache_pb2.CommitStoreResponse:
        """Publishes what was written."""
        return await self._boundary.call("commit_store", context, self._commit_store, request)

    async def Delete(self, request: cache_pb2.DeleteRequest, context: Context) -> cache_pb2.DeleteResponse:
        """Deletes keys."""
        return await self._boundary.call("delete", context, self._delete, request)

    async def ListKeys(
        self, request: cache_pb2.ListKeysRequest, context: Context
    ) -> cache_pb2.ListKeysResponse:
        """One page of the keys."""
        return await self._boundary.call("list", context, self._list_keys, request)

    async def GetUsage(
        self, request: cache_pb2.GetUsageRequest, context: Context
    ) -> cache_pb2.GetUsageResponse:
        """What the store holds."""
        return await self._boundary.call("usage", context, self._get_usage, request)

    async def GetCacheStatus(
        self, request: cache_pb2.GetCacheStatusRequest, context: Context
    ) -> cache_pb2.GetCacheStatusResponse:
        """The daemon as a cache server sees it."""
        return await self._boundary.call("status", context, self._get_cache_status, request)

    async def _open_session(self, context: Context, request: cache_pb2.OpenSessionRequest) -> None:
        reason = mismatch(
            request.client_version,
            request.protocol_version,
            self._greeting.daemon_version,
            PROTOCOL_VERSION,
        )
        if reason:
            raise VersionMismatch(reason)
        session = self._sessions.open(request.client_name)
        try:
            await self._plane.connect(session)
            await context.write(cache_pb2.SessionEvent(opened=self._opened(session)))
            await self._tell_news(session, context)
        finally:
            self._sessions.end(session, EndReason.STREAM_LOST)

    def _opened(self, session: Session) -> cache_pb2.SessionOpened:
        path = self._greeting.handoff_path
        offer = path and cache_pb2.HandoffOffer(socket_path=path, token=session.token.value)
        return cache_pb2.SessionOpened(
            session_id=session.id,
            handoff=offer or None,
            backend=self._backend.type_name,
            capacity_bytes=self._backend.capacity_bytes,
            fault_inject=faults_to_wire(self._rules.snapshot()),
            daemon_version=self._greeting.daemon_version,
            piece_size_bytes=PIECE_SIZE_BYTES,
            grant_ttl_s=self._greeting.grant_ttl_s,
            protocol_version=PROTOCOL_VERSION,
        )

    async def _tell_news(self, session: Session, context: Context) -> None:
        while True:
            await session.wait_for_news()
            if session.end_reason is EndReason.CLOSED:
                return
            if session.end_reason is EndReason.DRAINED:
                raise Draining("the daemon is shutting down")
            if session.end_reason is not None:
                raise UnknownSession(f"the session ended: {session.end_reason}")
            await context.write(cache_pb2.SessionEvent(fault_inject=faults_to_wire(self._rules.snapshot())))

    async def _close_session(self, request: cache_pb2.CloseSessionRequest) -> cache_pb2.CloseSessionResponse:
        session = self._sessions.get(request.session_id)
        if session is not None:
            self._sessions.end(session, EndReason.CLOSED)
        return cache_pb2.CloseSessionResponse()

    async def _lookup(self, request: cache_pb2.LookupAndLockRequest) -> cache_pb2.LookupAndLockResponse:
        session = self._sessions.find(request.session_id)
        answer = await self._plane.lookup(session, decode_keys(request.keys))
        return cache_pb2.LookupAndLockResponse(
            results=results_to_wire(answer.results), generation=answer.generation
        )

    async def _unlock(self, request: cache_pb2.UnlockRequest) -> cache_pb2.UnlockResponse:
        session = self._sessions.find(request.session_id)
        released = await self._plane.unlock(session, decode_keys(request.keys))
        return cache_pb2.UnlockResponse(released=released)

    async def _load(self, request: cache_pb2.LoadRequest) -> Granted[cache_pb2.LoadResponse]:
        session = self._sessions.find(request.session_id)
        keys = decode_keys(request.keys)
        sizes = sizes_from_wire(request.size_bytes, len(keys))
        ticket = LoadTicket(request.request_id, _is_inline(session, request.transport))
        session.require_room(len(keys))
        with session.loads.opened(ticket, len(keys)):
            answer = await self._plane.load(session, ticket, keys, sizes)
            descriptors = _descriptors_to_send(ticket)
            require_read_only(descriptors)
            response = cache_pb2.LoadResponse(
                results=results_to_wire(answer.results),
                extents=extents_to_wire(ticket.grants, descriptors),
                descriptor_count=len(descriptors),
                poison=poison_to_wire(answer.poison),
                completion=completion_to_wire(answer.completion),
                generation=answer.generation,
            )
            return Granted(response, ticket, descriptors)

    async def _send_first(
        self, handle: Callable[[RequestT], Awaitable[Granted[ResponseT]]], request: RequestT
    ) -> ResponseT:
        """The response of a gRPC call, once its descriptors have been sent."""
        granted = await handle(request)
        handoff = self._sessions.find(request.session_id).handoff
        with granted.being_sent():
            if granted.descriptors and handoff is not None:
                await handoff.send_descriptors(granted.request_id, granted.descriptors)
        return granted.response

    async def _read_extents(self, context: Context, request: cache_pb2.ReadExtentsRequest) -> None:
        session = self._sessions.find(request.session_id)
        ticket = session.loads.find(request.request_id)
        failed = []
        async with aclosing(self._inline.read(session, ticket)) as pieces:
            async for piece in pieces:
                if piece.failure:
                    failed.append(piece.position)
                await context.write(piece)
        self._plane.finish_load(session, ticket, failed)

    async def _prepare_store(
        self, request: cache_pb2.PrepareStoreRequest
    ) -> Granted[cache_pb2.PrepareStoreResponse]:
        session = self._sessions.find(request.session_id)
        keys = decode_keys(request.keys)
        sizes = sizes_from_wire(request.size_bytes, len(keys))
        inline = _is_inline(session, request.transport)
        ticket = StoreTicket(request.request_id, inline, self._backend.discard)
        session.require_room(len(keys))
        with session.stores.opened(ticket, len(keys)):
            answer = await self._plane.prepare_store(session, ticket, keys, sizes)
            descriptors = _descriptors_to_send(ticket)
            response = cache_pb2.PrepareStoreResponse(
                results=results_to_wire(answer.results),
                extents=extents_to_wire(ticket.grants, descriptors),
                descriptor_count=len(descriptors),
                generation=answer.generation,
            )
            return Granted(response, ticket, descriptors)

    async def _write_extents(self, pieces: AsyncIterator[WritePiece]) -> cache_pb2.WriteExtentsResponse:
        first = await anext(aiter(pieces), None)
        if first is None:
            raise InvalidRequest("the stream is empty; its first piece names session and request")
        session = self._sessions.find(first.session_id)
        ticket = session.stores.find(first.request_id)
        written = await self._inline.write(session, ticket, first)
        async for piece in pieces:
            written += await self._inline.write(session, ticket, piece)
        return cache_pb2.WriteExtentsResponse(written_bytes=written)

    async def _commit_store(self, request: cache_pb2.CommitStoreRequest) -> cache_pb2.CommitStoreResponse:
        session = self._sessions.find(request.session_id)
        ticket = session.stores.find(request.request_id)
        results = await self._plane.commit_store(session, ticket, request.written_bytes)
        return cache_pb2.CommitStoreResponse(results=results_to_wire(results))

    async def _delete(self, request: cache_pb2.DeleteRequest) -> cache_pb2.DeleteResponse:
        session = self._sessions.find(request.session_id)
        deletion = await self._plane.delete(session, decode_keys(request.keys))
        return cache_pb2.DeleteResponse(
            results=results_to_wire(deletion.results), freed_bytes=deletion.freed_bytes
        )

    async def _list_keys(self, request: cache_pb2.ListKeysRequest) -> cache_pb2.ListKeysResponse:
        session = self._sessions.find(request.session_id)
        if not 1 <= request.page_size <= MAX_BATCH_KEYS:
            raise InvalidRequest(f"page_size {request.page_size} is not in [1, {MAX_BATCH_KEYS}]")
        try:
            page = await self._plane.list_keys(session, request.model_name, request.page_size, request.cursor)
        except ValueError as error:
            raise InvalidRequest(f"cursor: {error}") from error
        return cache_pb2.ListKeysResponse(
            keys=encode_keys([key for key, _ in page.entries]),
            size_bytes=[size for _, size in page.entries],
            next_cursor=page.next_cursor,
        )

    async def _get_usage(self, request: cache_pb2.GetUsageRequest) -> cache_pb2.GetUsageResponse:
        session = self._sessions.find(request.session_id)
        usage = await self._plane.usage(session)
        return cache_pb2.GetUsageResponse(
            total_bytes=usage.total_bytes,
            capacity_bytes=usage.capacity_bytes,
            bytes_by_cache_salt=usage.bytes_by_cache_salt,
        )

    async def _get_cache_status(
        self, request: cache_pb2.GetCacheStatusRequest
    ) -> cache_pb2.GetCacheStatusResponse:
        session = self._sessions.find(request.session_id)
        health = await self._health.check()
        return cache_pb2.GetCacheStatusResponse(
            healthy=health.healthy,
            detail=health.detail,
            backend=self._backend.type_name,
            fault_inject=faults_to_wire(self._rules.snapshot()),
            locks=session.locks.total,
            grants=session.grants,
        )


def _is_inline(session: Session, transport: common_pb2.Transport) -> bool:
    inline = inline_from_wire(transport)
    if not inline and session.handoff is None:
        raise HandoffUnavailable("the session has no handoff connection; make it, or use TRANSPORT_INLINE")
    return inline


def _descriptors_to_send(ticket: LoadTicket | StoreTicket) -> Sequence[int]:
    return () if ticket.inline else unique_descriptors(ticket.grants)
