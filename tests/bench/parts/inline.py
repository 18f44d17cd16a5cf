"""Inline transport over loopback TCP: the bytes in gRPC messages, as for a cache server on another host."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing

from tests.bench.grid import MIB, WARMUP, rounds_for
from tests.bench.lmcache_side import Case, Memory, Side, in_turn, round_keys
from tests.bench.machine import peak_resident_bytes, reset_peak, resident_bytes
from tests.bench.results import Results, Row, summary
from tests.bench.services import directory, plugin, sidecar
from tests.harness.processes import free_port

TITLE = "Inline transport"

INLINE = "inline, loopback TCP"
HANDOFF = "handoff, Unix socket"

_MEMORY_BYTES = 512 * MIB


def cases(short: bool) -> Sequence[Case]:
    """Batches up to 256 MiB."""
    grid = [Case(MIB, 32), Case(4 * MIB, 8), Case(4 * MIB, 32), Case(32 * MIB, 8)]
    return grid[1:3] if short else grid


def run(results: Results, short: bool) -> None:
    """Measures the same store by both transports, and how much memory the daemon needs meanwhile."""
    memory = Memory(_MEMORY_BYTES)
    with ExitStack() as stack:
        backend = {"type": "fs", "base_path": str(stack.enter_context(directory()))}
        over_tcp = stack.enter_context(sidecar(backend, listen={"cache": f"127.0.0.1:{free_port()}"}))
        over_unix = stack.enter_context(sidecar(backend))
        daemons = {INLINE: over_tcp, HANDOFF: over_unix}
        sides = [
            stack.enter_context(closing(Side(name, plugin(daemon.cache_target), memory)))
            for name, daemon in daemons.items()
        ]
        for case in cases(short):
            keys = round_keys(case, "inline", 0)
            objects = memory.objects(case)
            sides[1].store(case, keys, objects)
            for side in sides:
                side.verify(case, keys, memory)
            grown = {name: -resident_bytes(daemon.process.pid) for name, daemon in daemons.items()}
            for daemon in daemons.values():
                reset_peak(daemon.process.pid)
            seconds = in_turn(
                sides,
                rounds_for(case, short),
                WARMUP,
                lambda side, _, case=case, keys=keys, objects=objects: side.load(case, keys, objects),
            )
            for name, daemon in daemons.items():
                grown[name] += peak_resident_bytes(daemon.process.pid)
            results.add(
                Row(case.fields("load"), name, {**summary(taken), "grown_bytes": grown[name]})
                for name, taken in seconds.items()
            )
