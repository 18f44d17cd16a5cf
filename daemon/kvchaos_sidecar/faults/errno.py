"""Errno: the store refuses an object with an error of the operating system."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from kvchaos.results import Result
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Code(StrEnum):
    """The error."""

    ENOSPC = "ENOSPC"
    EINVAL = "EINVAL"
    EIO = "EIO"


_RESULTS = {Code.ENOSPC: Result.NO_SPACE, Code.EINVAL: Result.INVALID, Code.EIO: Result.IO_ERROR}


class Errno(Fault):
    """Refuses to store an object. With a selection that takes some keys, a batch is refused in part."""

    kind = "errno"
    operations = frozenset({Operation.STORE})

    code: Annotated[Code, Field(strict=False)]
    """`ENOSPC`, `EINVAL` or `EIO`."""

    async def before(self, selected: Selected, batch: Batch) -> None:
        for position in selected.positions:
            batch.settle(position, _RESULTS[self.code])
