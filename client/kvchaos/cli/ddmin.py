"""Delta debugging: the smallest part of a cause that still has its effect.

Source: A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on
Software Engineering 28(2), 2002, the algorithm ddmin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A part of ``items``, in their order, that fails while it does not without any one of its items.

    ``items`` as a whole must fail, and nothing at all must not; neither is tried. No part is tried twice.
    That no single item can be left out does not say that this is the smallest part that fails.
    """
    tried: dict[tuple[int, ...], bool] = {tuple(range(len(items))): True, (): False}

    def still_fails(part: Sequence[int]) -> bool:
        key = tuple(part)
        if key not in tried:
            tried[key] = fails([items[index] for index in key])
        return tried[key]

    failing: Sequence[int] = range(len(items))
    pieces = 2
    while len(failing) >= 2:
        reduced, pieces = _reduce(failing, min(pieces, len(failing)), still_fails)
        if reduced is None:
            if pieces >= len(failing):
                break
            pieces = min(len(failing), 2 * pieces)
        else:
            failing = reduced
    return [items[index] for index in failing]


def _reduce(
    failing: Sequence[int], pieces: int, still_fails: Callable[[Sequence[int]], bool]
) -> tuple[Sequence[int] | None, int]:
    """A smaller part that fails (one piece, or all but one), if there is one; and how many pieces follow."""
    parts = _split(failing, pieces)
    for part in parts:
        if still_fails(part):
            return part, 2
    if pieces > 2:
        for part in parts:
            left_out = set(part)
            rest = [index for index in failing if index not in left_out]
            if still_fails(rest):
                return rest, pieces - 1
    return None, pieces


def _split(items: Sequence[int], pieces: int) -> list[Sequence[int]]:
    """``items`` in so many pieces, as equal as can be."""
    bounds = [len(items) * number // pieces for number in range(pieces + 1)]
    return [items[start:end] for start, end in pairwise(bounds)]
