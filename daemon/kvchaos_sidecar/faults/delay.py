"""Delay: the store takes its time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from kvchaos_sidecar.config.fields import DurationField
from kvchaos_sidecar.faults.contract import Fault, Selected
from kvchaos_sidecar.rules.call import Operation

if TYPE_CHECKING:
    from kvchaos_sidecar.faults.batch import Batch


class Distribution(StrEnum):
    """How the jitter is spread."""

    UNIFORM = "uniform"
    NORMAL = "normal"
    EXPONENTIAL = "exponential"
    PARETO = "pareto"


_PARETO_SHAPE = 1.5
_TINY = 1e-12

_QUANTILES: Mapping[Distribution, Callable[[float], float]] = {
    Distribution.UNIFORM: lambda chance: chance,
    Distribution.NORMAL: lambda chance: NormalDist().inv_cdf(max(chance, _TINY)),
    Distribution.EXPONENTIAL: lambda chance: -math.log(1 - chance),
    Distribution.PARETO: lambda chance: (1 - chance) ** (-1 / _PARETO_SHAPE) - 1,
}


class Delay(Fault):
    """Makes a call wait before the store is asked. A batch waits for the slowest of its selected keys.

    The delays of several rules add up. Halt ends them all at once.
    """

    kind = "delay"
    operations = frozenset(
        {Operation.LOAD, Operation.LOOKUP, Operation.STORE, Operation.UNLOCK, Operation.DELETE}
        | {Operation.LIST, Operation.USAGE, Operation.CONNECT}
    )

    fixed: DurationField | None = None
    """What every selected key takes."""
    jitter: DurationField | None = None
    """Scale of what is added by chance: the width (`uniform`), the standard deviation (`normal`, never below
    no delay), the mean (`exponential`) or the scale (`pareto`, shape 1.5)."""
    distribution: Annotated[Distribution, Field(strict=False)] = Distribution.UNIFORM
    """How the jitter is spread: `uniform`, `normal`, `exponential` or `pareto`."""
    per_mib: DurationField | None = None
    """What each MiB of the selected objects adds, for load and store."""

    @model_validator(mode="after")
    def _delays_something(self) -> Delay:
        if self.fixed is None and self.jitter is None and self.per_mib is None:
            raise ValueError("delays nothing; give fixed, jitter or per_mib, for example {fixed: 50ms}")
        return self

    async def before(self, selected: Selected, batch: Batch) -> None:
        longest = max(self._seconds(selected.chance(index)) for index in range(len(selected.positions)))
        await batch.hold(max(0.0, longest) + self._transfer_s(selected, batch))

    def _seconds(self, chance: float) -> float:
        jitter = seconds(self.jitter) * _QUANTILES[self.distribution](chance) if self.jitter else 0.0
        return seconds(self.fixed) + jitter

    def _transfer_s(self, selected: Selected, batch: Batch) -> float:
        sizes = batch.call.sizes
        size = sum(sizes[position] for position in selected.positions) if sizes else 0
        return seconds(self.per_mib) * size / (1 << 20)


def seconds(duration: timedelta | None) -> float:
    """A duration in seconds; 0 for none."""
    return duration.total_seconds() if duration else 0.0
