"""What became of one key: the Python mirror of ``kvchaos.v1.Result``."""

from __future__ import annotations

from enum import IntEnum


class Result(IntEnum):
    """Outcome of one key in a batch. The numbers are those of the wire; their meaning is in common.proto."""

    OK = 1
    PRESENT = 2
    NOT_FOUND = 3
    DROPPED = 4
    SIZE_MISMATCH = 5
    IO_ERROR = 6
    NO_SPACE = 7
    UNAVAILABLE = 8
    TIMED_OUT = 9
    INVALID = 10

    @property
    def label(self) -> str:
        """The name in metrics, logs and JSON."""
        return self.name.lower()
