"""Checksums of what a store publishes, taken after it is published and beside the traffic.

The writable descriptor of a grant is duplicated before publishing. Afterwards it still refers to the object's
own file: a file of the store, or memory that no other object ever uses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b

from kvchaos_sidecar.backends.contract import WriteLease

MAX_HELD = 256
"""Objects that wait for their checksums; each holds a descriptor and its memory."""
DIGEST_BYTES = 16
_PIECE_BYTES = 1 << 20


class HeldObjects:
    """Duplicated descriptors of one store, by position. Close it once."""

    def __init__(self, budget: Budget, grants: Mapping[int, WriteLease]) -> None:
        """Takes as many as the budget allows; the others have no checksum."""
        self._budget = budget
        self._descriptors: dict[int, int] = {}
        self._offsets = {position: lease.extent.offset for position, lease in grants.items()}
        for position, lease in grants.items():
            if not budget.take():
                return
            try:
                self._descriptors[position] = os.dup(lease.extent.descriptor)
            except OSError:  # descriptors have run out; the traffic needs them more
                budget.give_back(1)
                return

    def checksum(self, position: int, length: int) -> str | None:
        """Of the first ``length`` bytes, in hexadecimal; None when they cannot be had. Blocks."""
        descriptor = self._descriptors.get(position)
        if descriptor is None:
            return None
        digest, done = blake2b(digest_size=DIGEST_BYTES), 0
        with suppress(OSError):
            while done < length:
                piece = os.pread(descriptor, min(_PIECE_BYTES, length - done), self._offsets[position] + done)
                if not piece:
                    return None
                digest.update(piece)
                done += len(piece)
            return digest.hexdigest()
        return None

    def close(self) -> None:
        """Closes the descriptors."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._budget.give_back(len(self._descriptors))
        self._descriptors = {}


class Budget:
    """How many objects are held. Taken from by one thread and given back to by another."""

    def __init__(self, limit: int = MAX_HELD) -> None:
        self._limit = limit
        self._taken = 0
        self._given_back = 0

    def take(self) -> bool:
        """Takes one; False when there is none left."""
        if self._taken - self._given_back >= self._limit:
            return False
        self._taken += 1
        return True

    def give_back(self, count: int) -> None:
        """Gives some back."""
        self._given_back += count
