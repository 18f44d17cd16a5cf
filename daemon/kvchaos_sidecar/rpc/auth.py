"""The bearer token of the TCP listeners."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc

from kvchaos.errors import ConfigError

HEALTH_METHODS = "/grpc.health.v1.Health/"
"""Open to probes, which have no token."""


class BearerToken(grpc.aio.ServerInterceptor):
    """Refuses calls without ``authorization: Bearer TOKEN``, but for health checks."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Passes the call on, or answers it with UNAUTHENTICATED."""
        if handler_call_details.method.startswith(HEALTH_METHODS) or self._is_genuine(handler_call_details):
            return await continuation(handler_call_details)
        return grpc.stream_stream_rpc_method_handler(_refuse)

    def _is_genuine(self, details: grpc.HandlerCallDetails) -> bool:
        presented = [value for name, value in details.invocation_metadata or () if name == "authorization"]
        return len(presented) == 1 and hmac.compare_digest(_as_bytes(presented[0]), self._expected)


def read_token(path: str) -> str:
    """The token in a file, without white space around it.

    Raises:
        ConfigError: the file cannot be read, is empty or holds more than one word.
    """
    try:
        words = Path(path).read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"listen.token_file: cannot read {path}: {error}"]) from error
    if len(words) != 1:
        raise ConfigError([f"listen.token_file: {path} holds {len(words)} words; expected one, the token"])
    return words[0]


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


async def _refuse(_requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await context.abort(
        grpc.StatusCode.UNAUTHENTICATED,
        "this listener asks for the token of listen.token_file; send it as 'authorization: Bearer TOKEN'",
    )
