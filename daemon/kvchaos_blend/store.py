"""What the blend worker needs of a store of chunk objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from kvchaos.keys import ObjectKey
from kvchaos.results import Result

OnResult = Callable[[int, Result], None]
"""Told the position in a load batch and its outcome, once per position, from any thread."""


class ChunkStore(Protocol):
    """A store behind futures. No method raises; a call that failed as a whole ends its future with a
    KVChaosError.

    Result ``i`` belongs to key ``i``. Nothing touches a buffer after its call's future has ended.
    """

    def lookup_and_lock(self, keys: Sequence[ObjectKey]) -> Future[list[Result]]:
        """Locks the keys that are present: OK for those."""

    def load(
        self, keys: Sequence[ObjectKey], buffers: Sequence[memoryview], on_result: OnResult
    ) -> Future[list[Result]]:
        """Reads each object into its buffer.

        ``on_result`` hears of positions as soon as they are settled. Those that the store refuses outright
        come before the first one that is served, so at that one every refusal is known. A store that
        cannot tell so early leaves it to the future's end.
        """

    def store(self, keys: Sequence[ObjectKey], buffers: Sequence[memoryview]) -> Future[list[Result]]:
        """Writes each object: OK, or PRESENT where one was there already and was kept."""

    def delete(self, keys: Sequence[ObjectKey]) -> Future[list[Result]]:
        """Deletes the objects."""

    def unlock(self, keys: Sequence[ObjectKey]) -> Future[int]:
        """Takes back one lock per key; the number of locks released."""
