"""Reading a daemon's answers with care."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc

from kvchaos.channel import status_error
from kvchaos.errors import SidecarError
from kvchaos.results import Result

_BY_NUMBER = {result.value: result for result in Result}


def answer(call: Any) -> Any:
    """The answer of a finished gRPC future. Raises SidecarError where there is none."""
    code = call.code()
    if code is not grpc.StatusCode.OK:
        raise status_error(code, call.details())
    return call.result()


def read_result(number: int) -> Result:
    """The outcome that a number on the wire stands for; one that this version does not know is a failure."""
    return _BY_NUMBER.get(number, Result.IO_ERROR)


def read_results(numbers: Sequence[int], count: int) -> list[Result]:
    """The outcome of each of ``count`` keys. Raises SidecarError when the answer is for another number."""
    if len(numbers) != count:
        raise SidecarError(f"the daemon answered for {len(numbers)} keys; expected {count}")
    return [read_result(number) for number in numbers]
