"""Sides over a grid of cases: store, lookup and load, measured in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tests.bench.lmcache_side import Case, Memory, Side, in_turn, round_keys
from tests.bench.results import Results, Row, summary

KIB, MIB = 1 << 10, 1 << 20
WARMUP = 2
_LOADED_SETS_BYTES = 512 * MIB
"""Loads read as many different sets of objects as fit in here, one after the other."""

ROUNDS = ((8 * MIB, 41, 15), (128 * MIB, 21, 9), (1 << 62, 9, 5))
"""Up to so many bytes a round: how many rounds, and how many in the short mode."""


def rounds_for(case: Case, short: bool) -> int:
    """How often a case is measured: the smaller, the more often."""
    return next(few if short else many for limit, many, few in ROUNDS if case.total_bytes <= limit)


def measure_grid(
    results: Results, group: str, sides: Sequence[Side], cases: Iterable[Case], memory: Memory, short: bool
) -> None:
    """Measures every case and keeps its rows. The sides share one store: all load the same objects."""
    for case in cases:
        rounds = rounds_for(case, short)
        _keep(results, group, case, "store", _stores(sides, case, memory, rounds))
        sets = _store_sets(sides[-1], case, memory, rounds)
        for side in sides:
            side.verify(case, sets[0], memory)
        _keep(results, group, case, "lookup", _lookups(sides, case, rounds, sets))
        _keep(results, group, case, "load", _loads(sides, case, memory, rounds, sets))
        for keys in sets:
            sides[-1].delete(keys)


def _stores(sides: Sequence[Side], case: Case, memory: Memory, rounds: int) -> dict[str, list[float]]:
    objects = memory.objects(case)

    def store(side: Side, number: int) -> float:
        keys = round_keys(case, f"store {side.name}", number)
        seconds = side.store(case, keys, objects)
        side.delete(keys)
        return seconds

    return in_turn(sides, rounds, WARMUP, store)


def _store_sets(side: Side, case: Case, memory: Memory, rounds: int) -> list[list[list[object]]]:
    count = max(1, min(rounds, _LOADED_SETS_BYTES // case.total_bytes))
    sets = [round_keys(case, "load", number) for number in range(count)]
    for keys in sets:
        side.store(case, keys, memory.objects(case))
    return sets


def _lookups(sides: Sequence[Side], case: Case, rounds: int, sets: Sequence) -> dict[str, list[float]]:
    return in_turn(sides, rounds, WARMUP, lambda side, number: side.lookup(case, sets[number % len(sets)]))


def _loads(
    sides: Sequence[Side], case: Case, memory: Memory, rounds: int, sets: Sequence
) -> dict[str, list[float]]:
    objects = memory.objects(case)
    load: Callable[[Side, int], float] = lambda side, number: side.load(  # noqa: E731
        case, sets[number % len(sets)], objects
    )
    return in_turn(sides, rounds, WARMUP, load)


def _keep(results: Results, group: str, case: Case, operation: str, seconds: dict[str, list[float]]) -> None:
    fields = {"group": group, **case.fields(operation)}
    results.add(Row(fields, side, summary(taken)) for side, taken in seconds.items())
