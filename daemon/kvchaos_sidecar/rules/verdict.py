"""What a rule set says about one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.faults.contract import Fault


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


@dataclass(frozen=True, slots=True)
class Call:
    """One batch as the rules see it."""

    operation: Operation
    keys: Sequence[ObjectKey]
    sizes: Sequence[int] = ()
    """Bytes of each object where the call carries them."""
    client_name: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One rule fires on one position."""

    position: int
    rule: str
    reason: str
    """"rate", "index" or "tail_ratio"."""
    fault: Fault
    detail: str = ""
    """The numbers behind it, for a person; filled only when a call is explained."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The hits in one batch, by one generation of rules."""

    generation: int
    evaluated: Mapping[str, int]
    """Keys that each rule looked at."""
    hits: Sequence[Hit]
    """Ordered by rule, then position."""
