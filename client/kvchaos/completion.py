"""How a daemon wants the result of a load to reach the cache server."""

from __future__ import annotations

from typing import NamedTuple

from kvchaos.v1 import cache_pb2

MAX_LATE_S = 86_400.0


class Completion(NamedTuple):
    """A fault that only the adapter can show to its cache server. The default is none."""

    late_s: float = 0.0
    """Seconds for which the finished result is kept back."""
    twice: bool = False
    """The result is handed out a second time."""
    exchanged: bool = False
    """The result is exchanged with that of another load."""


AS_EVER = Completion()


def read_completion(message: cache_pb2.LoadResponse) -> Completion:
    """What an answer to a load asks for."""
    if not message.HasField("completion"):
        return AS_EVER
    wanted = message.completion
    return Completion(min(max(0.0, wanted.late_s), MAX_LATE_S), wanted.twice, wanted.exchanged)
