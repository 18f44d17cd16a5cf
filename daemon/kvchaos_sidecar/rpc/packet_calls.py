"""Calls of L2Cache that arrive as packets on a handoff connection (handoff.proto, Call)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from kvchaos.v1 import handoff_pb2
from kvchaos_sidecar.errors import HandoffUnavailable
from kvchaos_sidecar.rpc.boundary import Boundary, Refused

MAX_KEYS = 1024
"""The answer to so many keys fits into a packet, whatever it says."""

Handler = Callable[[Any], Awaitable[Any]]


class PacketMethods:
    """Answers calls as the gRPC service does: the same handlers behind the same boundary."""

    def __init__(self, boundary: Boundary, handlers: Mapping[str, tuple[str, Handler]]) -> None:
        """``handlers``: operation, as the boundary counts it, and handler of each field of Call.request."""
        self._boundary = boundary
        self._handlers = handlers

    async def answer(self, call: handoff_pb2.Call) -> handoff_pb2.Answer:
        """The answer, or the status with which the call fails."""
        name = call.WhichOneof("request")
        if name is None:
            return _failure(call, grpc.StatusCode.UNIMPLEMENTED, "this daemon does not know the call")
        request = getattr(call, name)
        if _entries(request) > MAX_KEYS:
            return _failure(
                call, grpc.StatusCode.INVALID_ARGUMENT, f"more than {MAX_KEYS} keys; make the call by gRPC"
            )
        operation, handler = self._handlers[name]
        try:
            response = await self._boundary.answer(operation, handler, request)
        except Refused as refusal:
            return _failure(call, refusal.code, str(refusal))
        return handoff_pb2.Answer(call_id=call.call_id, **{name: response})


class PacketCalls:
    """The calls in progress on one connection."""

    def __init__(self, methods: PacketMethods, send: Callable[[handoff_pb2.Answer], Awaitable[None]]) -> None:
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
        answer = await self._methods.answer(call)
        with suppress(HandoffUnavailable):  # the client is gone
            await self._send(answer)


def _entries(request: Any) -> int:
    column = request.keys.chunk_hash if hasattr(request, "keys") else request.written_bytes
    return len(column)


def _failure(call: handoff_pb2.Call, code: grpc.StatusCode, message: str) -> handoff_pb2.Answer:
    failure = handoff_pb2.Failure(status_code=code.value[0], message=message)
    return handoff_pb2.Answer(call_id=call.call_id, failure=failure)
