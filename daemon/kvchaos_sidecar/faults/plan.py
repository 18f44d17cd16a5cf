"""What the faults of one verdict do to one batch, before the backend is asked."""

from __future__ import annotations

from collections.abc import Sequence

from kvchaos.results import Result
from kvchaos_sidecar.faults.drop import Poison


class BatchPlan:
    """Starts as "nothing is changed"; each fault that fires changes its part of it.

    Attributes:
        settled: positions whose result a fault has decided; they cost no backend I/O.
        poison: what the client does to the destinations of dropped keys.
    """

    def __init__(self, batch_size: int) -> None:
        self.settled: dict[int, Result] = {}
        self.poison = Poison()
        self._batch_size = batch_size

    def settle(self, position: int, result: Result) -> None:
        """Decides the result of one key. The first fault to settle a position wins."""
        self.settled.setdefault(position, result)

    def open_positions(self) -> Sequence[int]:
        """The positions that the backend is asked for, ascending."""
        if not self.settled:
            return range(self._batch_size)
        return [position for position in range(self._batch_size) if position not in self.settled]
