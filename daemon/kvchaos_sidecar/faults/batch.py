"""What a fault can do to a batch: the daemon's side of the contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.faults.completion import Completion
from kvchaos_sidecar.faults.poison import Poison
from kvchaos_sidecar.rules.call import Call


class Batch(Protocol):
    """One call on its way through the daemon.

    Attributes:
        call: the call as the client made it.
        keys: the keys that the store is asked for; a fault may replace them before it is.
        poison: what the client does to the destinations of keys with the result DROPPED.
        completion: how the result of a load reaches the cache server.
        usage_bytes: of a usage call: the bytes that are reported.
    """

    call: Call
    keys: list[ObjectKey]
    poison: Poison
    completion: Completion
    usage_bytes: int

    def settle(self, position: int, result: Result) -> None:
        """Before the store is asked: decides a result, so that the store is not asked for it.

        The first fault to settle a position wins.
        """

    def result(self, position: int) -> Result:
        """After the store was asked: what becomes of a position."""

    def overrule(self, position: int, result: Result) -> None:
        """After the store was asked: replaces its answer, and gives back what it granted."""

    def granted(self, positions: Sequence[int]) -> list[int]:
        """Those of ``positions`` for which the store granted bytes."""

    def size(self, position: int) -> int:
        """Bytes granted for a position."""

    async def alter(
        self, position: int, change: Callable[[bytes], bytes], claimed_bytes: int | None = None
    ) -> None:
        """Replaces granted bytes by ``change`` of them, in memory of the daemon.

        ``claimed_bytes`` is the length that the client is told, where it is not that of the bytes.
        """

    async def read(self, position: int) -> bytes:
        """The bytes granted for a position."""

    def exchange(self, first: int, second: int) -> None:
        """Gives each of two granted positions the bytes of the other."""

    def now(self) -> float:
        """Seconds that never go back."""

    async def hold(self, seconds: float) -> None:
        """Waits, until halt releases what is held. Ends with the session and with the call."""

    async def delete(self, keys: Sequence[ObjectKey]) -> None:
        """Deletes objects from the store."""

    async def stored_bytes(self) -> int:
        """What the store holds."""

    def torn(self, position: int, size: int) -> None:
        """Before a store is published: only its first ``size`` bytes will be."""

    def withhold(self, position: int) -> None:
        """Before a store is published: it will not be, and its result is OK."""

    def end_session(self) -> None:
        """Ends the client's session, as a connection that is lost."""

    async def lose_metadata(self) -> None:
        """Ends every session and forgets what usage has counted, as a restart that keeps the objects."""
