"""One call on its way through the daemon, as its faults see and change it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.altered import altered_copy, read_extent
from kvchaos_sidecar.backends.contract import ReadLease, WriteLease
from kvchaos_sidecar.backends.slabs import SlabPool
from kvchaos_sidecar.faults.completion import Completion
from kvchaos_sidecar.faults.poison import Poison
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.strike import Strike

LeaseT = TypeVar("LeaseT", ReadLease, WriteLease)


class World(Protocol):
    """What is around a batch: its session and the store."""

    @property
    def slabs(self) -> SlabPool:
        """Memory for altered copies."""

    def now(self) -> float:
        """Seconds that never go back."""

    async def hold(self, rule: str, seconds: float) -> None:
        """Waits for a rule, until released."""

    async def delete_objects(self, keys: Sequence[ObjectKey]) -> None:
        """Deletes objects from the store."""

    async def stored_bytes(self) -> int:
        """What the store holds."""

    def end_session(self) -> None:
        """Ends the session of the call."""

    async def lose_metadata(self) -> None:
        """Ends every session and forgets the usage."""


class JudgedBatch(Generic[LeaseT]):
    """Implements :class:`kvchaos_sidecar.faults.batch.Batch`.

    It owns the leases that the store grants until :meth:`take_leases`; :meth:`close` gives back the rest.

    Attributes:
        generation: number of the rule set that judged the call.
        torn_bytes: of a store: how much of an object is published, by position.
        withheld: of a store: positions that are acknowledged and not published.
    """

    def __init__(
        self,
        call: Call,
        strikes: Sequence[Strike],
        generation: int,
        world: World,
        give_back: Callable[[Sequence[LeaseT]], None],
    ) -> None:
        self.call = call
        self.keys = list(call.keys)
        self.poison = Poison()
        self.completion = Completion()
        self.usage_bytes = 0
        self.generation = generation
        self.torn_bytes: dict[int, int] = {}
        self.withheld: set[int] = set()
        self._strikes = strikes
        self._world = world
        self._give_back: Callable[[Sequence[LeaseT]], None] = give_back
        self._settled: dict[int, Result] = {}
        self._results: dict[int, Result] = {}
        self._leases: dict[int, LeaseT] = {}
        self._acting = ""

    # The stages, for the data plane

    async def before(self) -> None:
        """Lets the faults act before the store is asked."""
        for strike in self._acting_strikes():
            await strike.fault.before(strike, self)

    async def after(self) -> None:
        """Lets the faults act on what the store answered."""
        for strike in self._acting_strikes():
            await strike.fault.after(strike, self)

    async def before_publish(self) -> None:
        """Lets the faults act before objects are published."""
        for strike in self._acting_strikes():
            await strike.fault.before_publish(strike, self)

    async def after_publish(self) -> None:
        """Lets the faults act on what became of the objects."""
        for strike in self._acting_strikes():
            await strike.fault.after_publish(strike, self)

    def open_positions(self) -> Sequence[int]:
        """The positions that the store is asked for, ascending."""
        positions = self.call.positions
        if not self._settled:
            return positions
        return [position for position in positions if position not in self._settled]

    def take_answers(self, positions: Sequence[int], answers: Sequence[LeaseT | Result]) -> None:
        """Takes what the store answered for ``positions``."""
        self._results = dict(self._settled)
        for position, answer in zip(positions, answers, strict=True):
            if isinstance(answer, Result):
                self._results[position] = answer
            else:
                self._results[position] = Result.OK
                self._leases[position] = answer

    def take_leases(self) -> dict[int, LeaseT]:
        """Hands the leases over, by position."""
        leases, self._leases = dict(sorted(self._leases.items())), {}
        return leases

    def adopt(self, leases: Mapping[int, LeaseT]) -> None:
        """Takes leases over, of a store that is about to be published."""
        self._leases = dict(leases)

    def conclude(self, results: Mapping[int, Result]) -> None:
        """Takes the results of publishing."""
        self._results = dict(results)

    @property
    def results(self) -> list[Result]:
        """What became of each position that has a result, in order."""
        return [self._results[position] for position in sorted(self._results)]

    @property
    def judged(self) -> tuple[Call, Sequence[Strike]] | None:
        """The call and what strikes it; None when nothing does."""
        return (self.call, self._strikes) if self._strikes else None

    def close(self) -> None:
        """Gives back what it still owns."""
        leases = self.take_leases()
        if leases:
            self._give_back(list(leases.values()))

    # What faults can do

    def settle(self, position: int, result: Result) -> None:
        self._settled.setdefault(position, result)

    def result(self, position: int) -> Result:
        return self._results[position]

    def overrule(self, position: int, result: Result) -> None:
        if position not in self._results:
            return
        self._results[position] = result
        lease = self._leases.pop(position, None)
        if lease is not None:
            self._give_back([lease])

    def granted(self, positions: Sequence[int]) -> list[int]:
        return [position for position in positions if position in self._leases]

    def size(self, position: int) -> int:
        return self._leases[position].extent.length

    async def read(self, position: int) -> bytes:
        return await asyncio.to_thread(read_extent, self._leases[position].extent)

    async def alter(
        self, position: int, change: Callable[[bytes], bytes], claimed_bytes: int | None = None
    ) -> None:
        original = self._leases[position]
        copy = await asyncio.to_thread(
            altered_copy, original.extent, change, claimed_bytes, self._world.slabs
        )
        if copy is None:
            self.overrule(position, Result.NO_SPACE)
            return
        self._leases[position] = copy  # type: ignore[assignment]  # only loads are altered
        self._give_back([original])

    def exchange(self, first: int, second: int) -> None:
        self._leases[first], self._leases[second] = self._leases[second], self._leases[first]

    def now(self) -> float:
        return self._world.now()

    async def hold(self, seconds: float) -> None:
        await self._world.hold(self._acting, seconds)

    async def delete(self, keys: Sequence[ObjectKey]) -> None:
        await self._world.delete_objects(keys)

    async def stored_bytes(self) -> int:
        return await self._world.stored_bytes()

    def torn(self, position: int, size: int) -> None:
        self.torn_bytes[position] = size

    def withhold(self, position: int) -> None:
        self.withheld.add(position)

    def end_session(self) -> None:
        self._world.end_session()

    async def lose_metadata(self) -> None:
        await self._world.lose_metadata()

    def _acting_strikes(self) -> Iterator[Strike]:
        """One strike after the other; the rule of the one that acts now is noted."""
        for strike in self._strikes:
            self._acting = strike.rule
            yield strike
