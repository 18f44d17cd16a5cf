"""Misreport: usage is not what the store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import model_validator

from kvchaos_sidecar.config.bounds import Between
from kvchaos_sidecar.config.fields import Count
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Misreport(Fault):
    """Reports another number of bytes in use.

    `{scale: 0}` for none, `{scale: 0.5}` for half, `{bytes: N}` for N.
    """

    kind = "misreport"
    operations = frozenset({Operation.USAGE})

    scale: Annotated[float, Between(0, 1_000_000)] | None = None
    """What the number is multiplied by."""
    bytes: Count | None = None
    """The number that is reported."""

    @model_validator(mode="after")
    def _says_one_thing(self) -> Misreport:
        if (self.scale is None) == (self.bytes is None):
            raise ValueError("give either scale or bytes, for example {scale: 0}")
        return self

    async def after(self, selected: Selected, batch: Batch) -> None:
        if self.bytes is not None:
            batch.usage_bytes = self.bytes
        elif self.scale is not None:
            batch.usage_bytes = int(batch.usage_bytes * self.scale)
