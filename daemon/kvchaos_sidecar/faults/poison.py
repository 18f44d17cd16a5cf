"""How the destination of a dropped key is spoiled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class PoisonKind(StrEnum):
    """What the destination of a dropped key is filled with."""

    NAN = "nan"
    BYTE = "byte"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Poison:
    """How to spoil a destination. 0xFF bytes read as NaN in float8, 16, 32, 64 and bfloat16."""

    kind: PoisonKind = PoisonKind.NAN
    fill: int = 0xFF
