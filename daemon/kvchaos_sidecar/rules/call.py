"""One call of the L2 interface as the rules see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kvchaos.keys import ObjectKey


class Operation(StrEnum):
    """The calls of the L2 interface that a rule can name."""

    STORE = "store"
    LOOKUP = "lookup"
    LOAD = "load"
    UNLOCK = "unlock"
    DELETE = "delete"
    LIST = "list"
    USAGE = "usage"
    CONNECT = "connect"


KEYLESS = frozenset({Operation.USAGE, Operation.CONNECT})
"""Calls without keys. They are judged as a batch with one position."""


@dataclass(frozen=True, slots=True)
class Call:
    """One batch as the rules see it."""

    operation: Operation
    keys: Sequence[ObjectKey]
    sizes: Sequence[int] = ()
    """Bytes of each object where the call carries them."""
    client_name: str = ""
    session: str = ""
    session_number: int = 0
    """Counts from 1 in the order in which sessions are opened; 0 for no session."""
    sequence: int = 0
    """Counts the calls of a session from 1."""

    @property
    def positions(self) -> range:
        """What a rule can hit: the positions of the keys; one position for a call without keys."""
        return range(1 if self.operation in KEYLESS else len(self.keys))
