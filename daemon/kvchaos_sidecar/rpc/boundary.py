"""Where a gRPC call enters and leaves the daemon: admission, status codes, counting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc

from kvchaos.errors import InvalidKeyError
from kvchaos_sidecar import outcome
from kvchaos_sidecar.backends.contract import BackendError, ListingUnsupported
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.errors import (
    Draining,
    HandoffUnavailable,
    InjectedFailure,
    InvalidRequest,
    TicketInUse,
    TooManyGrants,
    TooManySessions,
    UnknownSession,
    UnknownTicket,
    VersionMismatch,
)
from kvchaos_sidecar.metrics import Metrics

log = logging.getLogger(__name__)

ArgumentT = TypeVar("ArgumentT")
ResponseT = TypeVar("ResponseT")

Context = grpc.aio.ServicerContext[Any, Any]

STATUS_CODES: dict[type[Exception], grpc.StatusCode] = {
    InvalidKeyError: grpc.StatusCode.INVALID_ARGUMENT,
    InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    UnknownSession: grpc.StatusCode.NOT_FOUND,
    UnknownTicket: grpc.StatusCode.FAILED_PRECONDITION,
    TicketInUse: grpc.StatusCode.FAILED_PRECONDITION,
    HandoffUnavailable: grpc.StatusCode.FAILED_PRECONDITION,
    TooManySessions: grpc.StatusCode.RESOURCE_EXHAUSTED,
    TooManyGrants: grpc.StatusCode.RESOURCE_EXHAUSTED,
    VersionMismatch: grpc.StatusCode.FAILED_PRECONDITION,
    Draining: grpc.StatusCode.UNAVAILABLE,
    InjectedFailure: grpc.StatusCode.UNAVAILABLE,
    ListingUnsupported: grpc.StatusCode.UNIMPLEMENTED,
    BackendError: grpc.StatusCode.UNAVAILABLE,
}


class Refused(Exception):
    """A call fails with a gRPC status."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Boundary:
    """Runs the calls of the cache service.

    Attributes:
        calls: how many calls are in progress, without sessions.
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._closed = False
        self.calls = 0

    def close(self) -> None:
        """Admits nothing more: later calls fail with UNAVAILABLE."""
        self._closed = True

    async def call(
        self,
        operation: str,
        context: Context,
        handle: Callable[[ArgumentT], Awaitable[ResponseT]],
        argument: ArgumentT,
    ) -> ResponseT:
        """One gRPC call that ends by itself."""
        try:
            return await self.answer(operation, handle, argument)
        except Refused as refusal:
            await context.abort(refusal.code, str(refusal))
            raise

    async def answer(
        self, operation: str, handle: Callable[[ArgumentT], Awaitable[ResponseT]], argument: ArgumentT
    ) -> ResponseT:
        """One call that ends by itself, however it came. Raises Refused when it fails."""
        started = self._clock.monotonic()
        outcome.begin()
        self.calls += 1
        try:
            return await self._run(operation, handle, argument)
        finally:
            self.calls -= 1
            self._metrics.took(operation, outcome.noted(), self._clock.monotonic() - started)

    async def session(
        self, context: Context, handle: Callable[[ArgumentT], Awaitable[None]], argument: ArgumentT
    ) -> None:
        """The stream that is a session's life."""
        try:
            await self._run("open_session", handle, argument)
        except Refused as refusal:
            await context.abort(refusal.code, str(refusal))

    async def _run(
        self,
        operation: str,
        handle: Callable[[ArgumentT], Awaitable[ResponseT]],
        argument: ArgumentT,
    ) -> ResponseT:
        try:
            if self._closed:
                raise Draining("the daemon is shutting down")
            response = await handle(argument)
        except asyncio.CancelledError:
            outcome.note_failure()
            self._metrics.answered(operation, "cancelled")
            raise
        except Exception as error:
            outcome.note_failure()
            code, message = status_of(error)
            self._metrics.answered(operation, code.name.lower())
            raise Refused(code, message) from error
        self._metrics.answered(operation, "ok")
        return response


def status_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """The gRPC status for an error. One that nobody raises on purpose is logged, and kept from the client."""
    for kind in type(error).__mro__:
        code = STATUS_CODES.get(kind)
        if code is not None:
            return code, str(error)
    log.error("a call failed in a way that is not foreseen", exc_info=error)
    return grpc.StatusCode.INTERNAL, f"internal error ({type(error).__name__}); see the daemon's log"
