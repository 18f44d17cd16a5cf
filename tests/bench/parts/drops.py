"""The cost of a drop: loads at several rates, against LMCache's fault injection at the same rate and seed.

LMCache's adapter reads what it drops and then clears the result; the sidecar reads nothing and spoils the
buffer. Both drop the same keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.config.schema import FaultInject
from kvchaos_sidecar.rules.fault_inject import bucket_function
from tests.bench.grid import KIB, MIB, WARMUP, rounds_for
from tests.bench.lmcache_side import Case, Memory, Side, in_turn, round_keys
from tests.bench.results import Results, Row, summary
from tests.bench.services import directory, plugin, sidecar

TITLE = "The cost of a drop"

SIDECAR = "sidecar, fs"
FAULT_INJECT = "fault_inject(fs_native)"

RATES = (0.0, 0.1, 0.5, 0.9, 1.0)
_SEED = 7
_BUCKETS = 1_000_000
_MEMORY_BYTES = 256 * MIB


def cases(short: bool) -> Sequence[Case]:
    """Batches of 32 keys."""
    return [Case(size, 32) for size in ((MIB,) if short else (256 * KIB, MIB, 4 * MIB))]


def run(results: Results, short: bool) -> None:
    """Measures every rate with the same objects."""
    memory = Memory(_MEMORY_BYTES)
    for rate in RATES:
        with ExitStack() as stack:
            native = {"type": "fs_native", "base_path": str(stack.enter_context(directory()))}
            faults = {"rate": rate, "seed": _SEED}
            backend = {"type": "fs", "base_path": native["base_path"]}
            daemon = stack.enter_context(sidecar(backend, fault_inject=faults))
            specs = {
                SIDECAR: plugin(daemon.cache_target),
                FAULT_INJECT: {"type": "fault_inject", "inner": native, **faults},
            }
            sides = [stack.enter_context(closing(Side(name, spec, memory))) for name, spec in specs.items()]
            for case in cases(short):
                _measure(results, rate, sides, case, memory, short)


def _measure(
    results: Results, rate: float, sides: Sequence[Side], case: Case, memory: Memory, short: bool
) -> None:
    keys = round_keys(case, "drops", 0)
    objects = memory.objects(case)
    sides[0].store(case, keys, objects)
    arriving = sum(not _is_dropped(rate, ObjectKey(*_fields(key))) for batch in keys for key in batch)
    seconds = in_turn(
        sides, rounds_for(case, short), WARMUP, lambda side, _: side.load(case, keys, objects, arriving)
    )
    fields = {"rate": rate, "dropped": case.total_keys - arriving, **case.fields("load")}
    results.add(Row(fields, side, summary(taken)) for side, taken in seconds.items())


def _is_dropped(rate: float, key: ObjectKey) -> bool:
    threshold = int(FaultInject(rate=rate).rate * _BUCKETS)
    return bucket_function(_SEED)(key) < threshold


def _fields(key: object) -> tuple[bytes, str, int, int, str]:
    return key.chunk_hash, key.model_name, key.kv_rank, key.object_group_id, key.cache_salt  # type: ignore[attr-defined]
