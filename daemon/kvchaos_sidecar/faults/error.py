"""Error: the store fails a key, with an error of a chosen kind."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from kvchaos.results import Result
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Cause(StrEnum):
    """What the store says."""

    NOT_FOUND = "not_found"
    TIMED_OUT = "timed_out"
    SHORT_READ = "short_read"
    IO_ERROR = "io_error"
    UNAVAILABLE = "unavailable"


_RESULTS = {
    Cause.NOT_FOUND: Result.NOT_FOUND,
    Cause.TIMED_OUT: Result.TIMED_OUT,
    Cause.SHORT_READ: Result.IO_ERROR,
    Cause.IO_ERROR: Result.IO_ERROR,
    Cause.UNAVAILABLE: Result.UNAVAILABLE,
}


class Error(Fault):
    """Fails a key with an error of the store, without asking it. The destination of a load is left alone."""

    kind = "error"
    operations = frozenset({Operation.LOAD, Operation.LOOKUP, Operation.DELETE})

    cause: Annotated[Cause, Field(strict=False)] = Cause.IO_ERROR
    """`not_found`, `timed_out`, `short_read`, `io_error` or `unavailable`."""

    async def before(self, selected: Selected, batch: Batch) -> None:
        for position in selected.positions:
            batch.settle(position, _RESULTS[self.cause])
