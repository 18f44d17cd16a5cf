"""Batches that name a key more than once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)


def without_repeats(items: Iterable[tuple[int, KeyT]]) -> Iterable[list[int]]:
    """The positions in rounds: the first of each key, then the second of each, and so on."""
    seen: Counter[KeyT] = Counter()
    rounds: defaultdict[int, list[int]] = defaultdict(list)
    for position, key in items:
        rounds[seen[key]].append(position)
        seen[key] += 1
    return rounds.values()
