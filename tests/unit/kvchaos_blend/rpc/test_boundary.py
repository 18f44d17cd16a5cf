"""Every error has a status."""

from __future__ import annotations

import inspect

import grpc
import pytest

import kvchaos_blend.errors
from kvchaos_blend.errors import BlendError
from kvchaos_blend.rpc.boundary import STATUS_BY_ERROR

ERRORS = [
    error
    for _, error in inspect.getmembers(kvchaos_blend.errors, inspect.isclass)
    if issubclass(error, BlendError) and error is not BlendError
]


@pytest.mark.parametrize("error", ERRORS)
def test_no_error_of_the_worker_is_internal(error: type[Exception]) -> None:
    code = next(code for kind, code in STATUS_BY_ERROR if issubclass(error, kind))
    assert code is not grpc.StatusCode.INTERNAL
