"""LMCache adapters under LMCache's own benchmark (``lmcache bench l2``), one round at a time.

Its runners measure one adapter over many rounds. Called with one round each, in turn for every adapter, they
measure all of them under the same conditions.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from lmcache.cli.commands.bench.l2_adapter_bench import data, runner
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.config import parse_args_to_l2_adapters_config
from lmcache.v1.memory_management import MemoryObj

_ALIGNMENT = 4096
_SETTLE_S = 0.002
_ENOUGH_S = 3.0
"""A case that has taken so long ends with fewer rounds, but with at least so many:"""
_FEWEST_ROUNDS = 5
_PATTERN = 101
"""Loads are verified against buffers that were filled with another pattern before."""


class BenchFailed(Exception):
    """An adapter did not do what it was asked; its time means nothing."""


@dataclass(frozen=True)
class Case:
    """The size of one round."""

    size_bytes: int
    keys: int
    in_flight: int = 1

    @property
    def total_keys(self) -> int:
        """Keys of a round."""
        return self.keys * self.in_flight

    @property
    def total_bytes(self) -> int:
        """Bytes of a round."""
        return self.total_keys * self.size_bytes

    def fields(self, operation: str) -> dict[str, Any]:
        """The case for a :class:`~tests.bench.results.Row`."""
        return {
            "operation": operation,
            "size_bytes": self.size_bytes,
            "keys": self.keys,
            "in_flight": self.in_flight,
        }


class Memory:
    """Host memory that stands for the cache server's, shared by all sides because they work in turn."""

    def __init__(self, size_bytes: int) -> None:
        self._buffer = data.make_aligned_tensor(size_bytes, _ALIGNMENT)
        self._buffer.zero_()
        self.description = data.create_l1_memory_desc(self._buffer, _ALIGNMENT)

    def objects(self, case: Case, pattern: int = 0) -> list[list[MemoryObj]]:
        """Memory for one round, one list for each batch in flight, filled with a pattern for each object."""
        batch = case.keys * case.size_bytes
        return [
            data.make_memory_objects(self._buffer, case.keys, case.size_bytes, number * batch, pattern)
            for number in range(case.in_flight)
        ]


class Side:
    """One adapter under test.

    Attributes:
        name: what tables call it.
    """

    def __init__(self, name: str, spec: Mapping[str, Any], memory: Memory) -> None:
        """Creates the adapter exactly as a cache server does from ``spec``."""
        self.name = name
        parsed = parse_args_to_l2_adapters_config(argparse.Namespace(l2_adapter=[json.dumps(spec)]))
        self._adapter = create_l2_adapter(parsed.adapters[0], l1_memory_desc=memory.description)

    def store(self, case: Case, keys: list[list[ObjectKey]], objects: list[list[MemoryObj]]) -> float:
        """Seconds for storing one round."""
        return _duration(
            runner.bench_store(
                self._adapter,
                case.in_flight,
                case.keys,
                case.size_bytes,
                1,
                lambda _: keys,
                lambda _: objects,
                _quiet,
            ),
            case.total_keys,
            f"{self.name}: store",
        )

    def lookup(self, case: Case, keys: list[list[ObjectKey]]) -> float:
        """Seconds for looking up one round. Unlocks afterwards, outside the measurement."""
        result = runner.bench_lookup(self._adapter, case.in_flight, case.keys, 1, lambda _: keys, _quiet)
        for batch in keys:
            self._adapter.submit_unlock(batch)
        time.sleep(_SETTLE_S)
        return _duration(result, case.total_keys, f"{self.name}: lookup")

    def load(
        self,
        case: Case,
        keys: list[list[ObjectKey]],
        objects: list[list[MemoryObj]],
        expected: int | None = None,
    ) -> float:
        """Seconds for loading one round, of which ``expected`` keys arrive (all unless told)."""
        return _duration(
            runner.bench_load(
                self._adapter,
                case.in_flight,
                case.keys,
                case.size_bytes,
                1,
                lambda _: keys,
                lambda _: objects,
                _quiet,
            ),
            case.total_keys if expected is None else expected,
            f"{self.name}: load",
        )

    def verify(self, case: Case, keys: list[list[ObjectKey]], memory: Memory) -> None:
        """Loads what :meth:`store` stored from untouched objects and compares it byte for byte."""
        stored = [[item.raw_data.clone() for item in batch] for batch in memory.objects(case)]
        loaded = memory.objects(case, _PATTERN)
        self.load(case, keys, loaded)
        for expected, found in zip(stored, loaded, strict=True):
            for one, other in zip(expected, found, strict=True):
                if not torch.equal(one, other.raw_data):
                    raise BenchFailed(f"{self.name}: loaded other bytes than were stored")

    def delete(self, keys: list[list[ObjectKey]]) -> None:
        """Deletes the keys of a round, outside any measurement."""
        for batch in keys:
            self._adapter.delete(batch)

    def close(self) -> None:
        """Ends the adapter."""
        self._adapter.close()


def round_keys(case: Case, family: str, number: int) -> list[list[ObjectKey]]:
    """The keys of a round, made as ``lmcache bench l2`` makes them; ``family`` keeps sets apart."""
    first = number * case.total_keys
    return [
        data.make_object_keys(case.keys, family, first + batch * case.keys) for batch in range(case.in_flight)
    ]


def in_turn(
    sides: Sequence[Side], rounds: int, warmup: int, measure: Callable[[Side, int], float]
) -> dict[str, list[float]]:
    """Seconds of each round of each side, measured A B C A B C ... ``measure`` gets side and round.

    Ends early, after a whole turn, when it has taken long and there are rounds enough for a median.
    """
    seconds: dict[str, list[float]] = {side.name: [] for side in sides}
    ends = time.monotonic() + _ENOUGH_S
    with _no_garbage_collection():
        for number in range(warmup + rounds):
            if number >= warmup + _FEWEST_ROUNDS and time.monotonic() > ends:
                break
            for side in sides:
                taken = measure(side, number)
                if number >= warmup:
                    seconds[side.name].append(taken)
    return seconds


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _duration(result: Any, expected: int, what: str) -> float:
    if result.success_counts != [expected]:
        raise BenchFailed(f"{what}: {result.success_counts} keys succeeded; expected {expected}")
    return float(result.round_durations[0])


def _quiet(_: str) -> None:
    """LMCache's runners report each round; the tables say it all."""
