"""The cost of a decision: judging batches under many rules, in one thread, and what that adds to a load."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import SystemClock
from kvchaos_sidecar.config.load import validate
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.governor import Governor
from tests.bench.grid import KIB, MIB, WARMUP, rounds_for
from tests.bench.lmcache_side import Case, Memory, Side, in_turn, round_keys
from tests.bench.results import Results, Row, summary
from tests.bench.services import directory, plugin, sidecar

TITLE = "The cost of a decision"

IDLE = "no rule applies"
RATE_ZERO = "rate 0 everywhere"
ONE_RATE = "one rate rule applies"
CLASSIC = "fault_inject at rate 0.5"

RULE_COUNTS = (0, 1, 10, 100, 1000)
BATCHES = (1, 10, 100, 1000, 10_000)
MODEL = "bench-model"
_RATE = 0.5
_ENOUGH_S = 0.3
_SHORT_S = 0.05


def document(kind: str, rules: int) -> dict[str, Any]:
    """The parts of a configuration with that many rules."""
    others = [_rule(f"other-{number}", f"other-model-{number}", _RATE) for number in range(rules)]
    parts: dict[str, Any] = {"environment": "bench"}
    if kind == IDLE:
        return {**parts, "rules": others}
    if kind == RATE_ZERO:
        zero = [_rule(f"zero-{number}", MODEL, 0.0) for number in range(rules)]
        return {**parts, "rules": zero, "fault_inject": {"rate": 0.0}}
    if kind == CLASSIC:
        return {**parts, "rules": others, "fault_inject": {"rate": _RATE}}
    return {**parts, "rules": [*others[: rules - 1], _rule("applies", MODEL, _RATE)] if rules else []}


def run(results: Results, short: bool) -> None:
    """Measures the judging alone, then loads through daemons with and without rules."""
    for kind in (IDLE, RATE_ZERO, ONE_RATE, CLASSIC):
        for rules in (0, 100, 1000) if short else RULE_COUNTS:
            governor = Governor(validate(_complete(document(kind, rules))), SystemClock())
            for batch in (32, 1000) if short else BATCHES:
                values = _judging(governor, batch, _SHORT_S if short else _ENOUGH_S)
                results.add([Row({"kind": kind, "rules": rules, "batch": batch}, "judge", values)])
    _loads(results, short)


def _judging(governor: Governor, batch: int, enough_s: float) -> dict[str, float]:
    call = Call(Operation.LOAD, _keys(batch), [MIB] * batch, "lmcache@bench:1", "session")
    governor.judge(call)
    seconds: list[float] = []
    gc.collect()
    gc.disable()
    ends = time.perf_counter() + enough_s
    while time.perf_counter() < ends or len(seconds) < 5:
        started = time.perf_counter()
        governor.judge(call)
        seconds.append(time.perf_counter() - started)
    gc.enable()
    return {**summary(seconds), "keys_per_s": batch / statistics.median(seconds)}


def _loads(results: Results, short: bool) -> None:
    case = Case(64 * KIB, 32)
    variants = {"no rules": {}, "1,000 rules that do not match": document(IDLE, 1000)}
    variants["1,000 rules at rate 0"] = document(RATE_ZERO, 1000)
    memory = Memory(case.total_bytes)
    with ExitStack() as stack:
        backend = {"type": "fs", "base_path": str(stack.enter_context(directory()))}
        sides: list[Side] = []
        for name, parts in variants.items():
            daemon = stack.enter_context(sidecar(backend, **parts))
            sides.append(stack.enter_context(closing(Side(name, plugin(daemon.cache_target), memory))))
        keys, objects = round_keys(case, MODEL, 0), memory.objects(case)
        sides[0].store(case, keys, objects)
        rounds = 5 * rounds_for(case, short)
        seconds = in_turn(sides, rounds, WARMUP, lambda side, _: side.load(case, keys, objects))
        results.add(Row(case.fields("load"), name, summary(taken)) for name, taken in seconds.items())


def _rule(name: str, model: str, rate: float) -> Mapping[str, Any]:
    return {
        "name": name,
        "match": {"op": "load", "model": model},
        "select": {"rate": rate, "seed": 1},
        "fault": "drop",
    }


def _complete(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": 1, "backend": {"type": "memory", "capacity_bytes": 1}, **parts}


def _keys(count: int) -> Sequence[ObjectKey]:
    return [ObjectKey(number.to_bytes(32, "big"), MODEL, 0x01000100) for number in range(count)]
