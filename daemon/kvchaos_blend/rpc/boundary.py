"""Where the worker's errors become gRPC status codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import grpc

from kvchaos.errors import InvalidKeyError
from kvchaos_blend.errors import (
    BlendError,
    Cancelled,
    ModelError,
    PoolFull,
    PromptError,
    StoreMismatch,
    TooManyRequests,
)

STATUS_BY_ERROR: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (PromptError, grpc.StatusCode.INVALID_ARGUMENT),
    (InvalidKeyError, grpc.StatusCode.INVALID_ARGUMENT),
    (PoolFull, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (TooManyRequests, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (StoreMismatch, grpc.StatusCode.FAILED_PRECONDITION),
    (ModelError, grpc.StatusCode.FAILED_PRECONDITION),
    (Cancelled, grpc.StatusCode.CANCELLED),
    (BlendError, grpc.StatusCode.INTERNAL),
    (ValueError, grpc.StatusCode.INVALID_ARGUMENT),
)
"""The first class that fits decides. What fits none is a bug, which gRPC reports as UNKNOWN."""


@contextmanager
def as_status(context: grpc.ServicerContext) -> Iterator[None]:
    """Ends the call with the status that fits an error raised in the block."""
    try:
        yield
    except tuple(kind for kind, _ in STATUS_BY_ERROR) as error:
        _abort(context, error)


def _abort(context: grpc.ServicerContext, error: Exception) -> NoReturn:
    code = next(code for kind, code in STATUS_BY_ERROR if isinstance(error, kind))
    context.abort(code, str(error))
    raise error
