"""Reading a daemon's answers with care."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import grpc

from kvchaos.channel import status_error
from kvchaos.errors import SidecarError
from kvchaos.results import Result

_BY_NUMBER = {result.value: result for result in Result}


class Outcome(NamedTuple):
    """How a call ended."""

    code: grpc.StatusCode
    details: str | None
    """Why it failed."""
    response: Any
    """The answer of the daemon; None unless the code is OK."""


def finished(call: Any) -> Outcome:
    """The outcome of a gRPC future that is done."""
    code = call.code()
    return Outcome(code, call.details(), call.result() if code is grpc.StatusCode.OK else None)


def answer(outcome: Outcome) -> Any:
    """The daemon's answer. Raises SidecarError where there is none."""
    if outcome.code is not grpc.StatusCode.OK:
        raise status_error(outcome.code, outcome.details)
    return outcome.response


def read_result(number: int) -> Result:
    """The outcome that a number on the wire stands for; one that this version does not know is a failure."""
    return _BY_NUMBER.get(number, Result.IO_ERROR)


def read_results(numbers: Sequence[int], count: int) -> list[Result]:
    """The outcome of each of ``count`` keys. Raises SidecarError when the answer is for another number."""
    if len(numbers) != count:
        raise SidecarError(f"the daemon answered for {len(numbers)} keys; expected {count}")
    return [read_result(number) for number in numbers]
