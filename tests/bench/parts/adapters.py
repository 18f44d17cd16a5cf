"""Against LMCache's in-process adapters, with LMCache's own ``bench l2``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing

from tests.bench.grid import KIB, MIB, measure_grid
from tests.bench.lmcache_side import Case, Memory, Side
from tests.bench.results import Results
from tests.bench.services import directory, hosted, plugin, redis, sidecar

TITLE = "Against in-process adapters"

SIDECAR_FS = "sidecar, fs"
SIDECAR_HOSTED_FS = "sidecar, hosted fs_native"
FS_NATIVE = "fs_native"
FS = "fs"
FAULT_INJECT = "fault_inject(fs_native)"
SIDECAR_REDIS = "sidecar, redis"
SIDECAR_HOSTED_RESP = "sidecar, hosted resp"
RESP = "resp"

_MEMORY_BYTES = 1024 * MIB
_MOST_BYTES_A_ROUND = {"files": 1024 * MIB, "redis": 256 * MIB}
_SIZES = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 32 * MIB)


def cases(group: str, short: bool) -> Sequence[Case]:
    """The grid, without the rounds that would need more memory than a group may use."""
    keys = (8, 32) if short else (1, 8, 32, 128)
    in_flight = (1,) if short else (1, 4)
    grid = [Case(size, count, batches) for size in _SIZES for batches in in_flight for count in keys]
    limit = _MOST_BYTES_A_ROUND[group] // (4 if short else 1)
    return [case for case in grid if case.total_bytes <= limit]


def run(results: Results, short: bool) -> None:
    """Measures both groups."""
    memory = Memory(_MEMORY_BYTES)
    _files(results, memory, short)
    _redis(results, memory, short)


def _files(results: Results, memory: Memory, short: bool) -> None:
    with ExitStack() as stack:
        base = {"base_path": str(stack.enter_context(directory()))}
        native = {"type": "fs_native", **base}
        own = stack.enter_context(sidecar({"type": "fs", **base}))
        hosting = stack.enter_context(sidecar(hosted(native)))
        specs = {
            SIDECAR_FS: plugin(own.cache_target),
            SIDECAR_HOSTED_FS: plugin(hosting.cache_target),
            FS: {"type": "fs", **base},
            FAULT_INJECT: {"type": "fault_inject", "inner": native},
            FS_NATIVE: native,
        }
        sides = [stack.enter_context(closing(Side(name, spec, memory))) for name, spec in specs.items()]
        measure_grid(results, "files", sides, cases("files", short), memory, short)


def _redis(results: Results, memory: Memory, short: bool) -> None:
    with ExitStack() as stack:
        server = {"host": "127.0.0.1", "port": stack.enter_context(redis(stack.enter_context(directory())))}
        resp = {"type": "resp", **server}
        own = stack.enter_context(sidecar({"type": "redis", **server}))
        hosting = stack.enter_context(sidecar(hosted(resp)))
        specs = {
            SIDECAR_REDIS: plugin(own.cache_target),
            SIDECAR_HOSTED_RESP: plugin(hosting.cache_target),
            RESP: resp,
        }
        sides = [stack.enter_context(closing(Side(name, spec, memory))) for name, spec in specs.items()]
        measure_grid(results, "redis", sides, cases("redis", short), memory, short)
