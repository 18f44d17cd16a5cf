"""Calls of L2Cache that arrive as packets on a handoff connection (handoff.proto, Call)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from kvchaos.v1 import handoff_pb2
from kvchaos_sidecar.errors import HandoffUnavailable
from kvchaos_sidecar.rpc.boundary import Boundary, Refused
from kvchaos_sidecar.rpc.granted import Granted

MAX_KEYS = 1024
"""The answer to so many keys fits into a packet, whatever it says."""

Handler = Callable[[Any], Awaitable[Any]]
"""Yields a response, or a Granted one."""

Send = Callable[[handoff_pb2.Answer, int, Sequence[int]], Awaitable[None]]
"""Sends an answer with the descriptors of a request. Raises HandoffUnavailable."""


class PacketMethods:
    """Answers calls as the gRPC service does: the same handlers behind the same boundary."""

    def __init__(self, boundary: Boundary, handlers: Mapping[str, tuple[str, Handler]]) -> None:
        """``handlers``: operation, as the boundary counts it, and handler of each field of Call.request."""
        self._boundary = boundary
        self._handlers = handlers

    async def answer(self, call: handoff_pb2.Call, send: Send) -> None:
        """Sends the answer, or the status with which the call fails."""
        try:
            name, response = await self._carry_out(call)
        except Refused as refusal:
            failure = handoff_pb2.Failure(status_code=refusal.code.value[0], message=str(refusal))
            await send(handoff_pb2.Answer(call_id=call.call_id, failure=failure), 0, ())
            return
        if not isinstance(response, Granted):
            await send(handoff_pb2.Answer(call_id=call.call_id, **{name: response}), 0, ())
            return
        with response.being_sent():
            answer = handoff_pb2.Answer(call_id=call.call_id, **{name: response.response})
            await send(answer, response.request_id, response.descriptors)

    async def _carry_out(self, call: handoff_pb2.Call) -> tuple[str, Any]:
        name = call.WhichOneof("request")
        if name is None:
            raise Refused(grpc.StatusCode.UNIMPLEMENTED, "this daemon does not know the call")
        request = getattr(call, name)
        if _entries(request) > MAX_KEYS:
            raise Refused(
                grpc.StatusCode.INVALID_ARGUMENT, f"more than {MAX_KEYS} keys; make the call by gRPC"
            )
        operation, handler = self._handlers[name]
        return name, await self._boundary.answer(operation, handler, request)


class PacketCalls:
    """The calls in progress on one connection."""

    def __init__(self, methods: PacketMethods, send: Send) -> None:
        self._methods = methods
        self._send = send
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, call: handoff_pb2.Call) -> None:
        """Carries out a call beside the others. Raises DecodeError when its id is in use."""
        if call.call_id in self._tasks:
            raise DecodeError(f"call_id {call.call_id} is in use")
        task = asyncio.create_task(self._carry_out(call))
        self._tasks[call.call_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(call.call_id))

    def cancel(self, call_id: int) -> None:
        """Cancels a call, unless it has been answered."""
        task = self._tasks.get(call_id)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Cancels every call."""
        for task in self._tasks.values():
            task.cancel()

    async def _carry_out(self, call: handoff_pb2.Call) -> None:
        with suppress(HandoffUnavailable):  # the client is gone
            await self._methods.answer(call, self._send)


def _entries(request: Any) -> int:
    column = request.keys.chunk_hash if hasattr(request, "keys") else request.written_bytes
    return len(column)
