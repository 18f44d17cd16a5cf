"""Scale: many sessions at once, many keys in the store, CPU for each byte, memory over a long time."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kvchaos.client import L2Client
from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.filenames import to_file_name
from tests.bench import load_loop
from tests.bench.grid import KIB, MIB
from tests.bench.machine import cpu_seconds, own_bytes
from tests.bench.results import Results, Row, summary
from tests.bench.services import directory, sidecar

TITLE = "Scale"

SIDECAR = "sidecar, fs"
SESSIONS = (1, 2, 4, 8, 16, 32)
STORED_KEYS = (1, 1_000, 100_000, 1_000_000)
HOUR_BATCHES = 36_000
"""A cache server that loads ten batches a second for an hour."""

_REPOSITORY = Path(__file__).parents[3]
_BATCH, _SIZE = 32, 256 * KIB
_CPU_CASES = ((MIB, 32), (256 * KIB, 32), (4 * MIB, 8))
_PAGE = 500
_PATIENCE_S = 120.0


def run(results: Results, short: bool) -> None:
    """Measures one after the other."""
    _sessions(results, short)
    _cpu(results, short)
    _stored_keys(results, short)
    _long_run(results, short)


def _sessions(results: Results, short: bool) -> None:
    with directory() as place, sidecar({"type": "fs", "base_path": str(place)}) as daemon:
        with _client(daemon.cache_target) as client:
            _store(client, load_loop.keys(_BATCH), _SIZE)
        for count in SESSIONS[::3] if short else SESSIONS:
            seconds = 1.0 if short else 4.0
            before = cpu_seconds(daemon.process.pid)
            outcomes = _load_at_once(daemon.cache_target, count, seconds)
            cpu_s = cpu_seconds(daemon.process.pid) - before
            batches = sum(outcome["batches"] for outcome in outcomes)
            values = {
                "batches_per_s": batches / seconds,
                "bytes_per_s": batches * _BATCH * _SIZE / seconds,
                "median_s": statistics.median(outcome["median_s"] for outcome in outcomes),
                "daemon_cpu_s_per_batch": cpu_s / batches,
            }
            case = {"what": "sessions", "sessions": count, "keys": _BATCH, "size_bytes": _SIZE}
            results.add([Row(case, SIDECAR, values)])


def _load_at_once(target: str, count: int, seconds: float) -> list[dict[str, float]]:
    command = [sys.executable, "-m", "tests.bench.load_loop", target, str(_BATCH), str(_SIZE), str(seconds)]
    clients = [
        subprocess.Popen(command, cwd=_REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        for client in clients:
            json.loads(client.stdout.readline())
        for client in clients:
            client.stdin.write("\n")
            client.stdin.flush()
        return [json.loads(client.communicate(timeout=_PATIENCE_S)[0]) for client in clients]
    finally:
        for client in clients:
            client.kill()
            client.wait()


def _cpu(results: Results, short: bool) -> None:
    with directory() as place, sidecar({"type": "fs", "base_path": str(place)}) as daemon:
        for size, count in _CPU_CASES:
            with _client(daemon.cache_target) as client:
                keys = [ObjectKey(number.to_bytes(32, "big"), f"cpu-{size}", 1) for number in range(count)]
                _store(client, keys, size)
                buffers = [bytearray(size) for _ in keys]
                batches = (1 if short else 8) * 1024 * MIB // (size * count)
                before = cpu_seconds(daemon.process.pid)
                for _ in range(batches):
                    client.load(keys, buffers).result()
                cpu_s = cpu_seconds(daemon.process.pid) - before
            moved = batches * size * count
            case = {"what": "cpu", "keys": count, "size_bytes": size}
            results.add([Row(case, SIDECAR, {"daemon_cpu_s_per_gib": cpu_s / (moved / 2**30)})])


def _stored_keys(results: Results, short: bool) -> None:
    with directory() as place:
        made = 0
        for count in STORED_KEYS[:-1] if short else STORED_KEYS:
            for number in range(made, count):
                (place / os.fsdecode(to_file_name(_stored(number)))).write_bytes(b"kv")
            made = count
            started = time.perf_counter()
            with sidecar({"type": "fs", "base_path": str(place)}) as daemon:
                start_s = time.perf_counter() - started
                with _client(daemon.cache_target) as client:
                    values = {"start_s": start_s, **_operations(client, count)}
                values["own_bytes"] = own_bytes(daemon.process.pid)
            results.add([Row({"what": "stored keys", "stored": count}, SIDECAR, values)])


def _operations(client: L2Client, count: int) -> dict[str, float]:
    step = max(1, count // _BATCH)
    keys = [_stored(number % count) for number in range(0, _BATCH * step, step)]
    first = client.list_keys("", _PAGE, timeout_s=_PATIENCE_S).result()
    calls: dict[str, Callable[[], object]] = {
        "lookup_s": lambda: client.lookup_and_lock(keys).result(),
        "list_page_s": lambda: client.list_keys("", _PAGE, first.next_cursor, _PATIENCE_S).result(),
        "usage_s": lambda: client.usage().result(),
    }
    return {name: _median_s(call) for name, call in calls.items()}


def _long_run(results: Results, short: bool) -> None:
    """Stores, looks up, loads, unlocks and deletes for as many batches as an hour has, as fast as it goes."""
    total = HOUR_BATCHES // (20 if short else 1)
    with (
        directory() as place,
        sidecar({"type": "fs", "base_path": str(place)}) as daemon,
        _client(daemon.cache_target) as client,
    ):
        buffers = [bytearray(16 * KIB) for _ in range(8)]
        started = time.perf_counter()
        for number in range(total):
            _turn_over(client, number, buffers)
            if number % (total // 20) == total // 20 - 1:
                resident = own_bytes(daemon.process.pid)
                case = {"what": "long run", "batches": number + 1, "of": total}
                passed = time.perf_counter() - started
                results.add([Row(case, SIDECAR, {"own_bytes": resident, "seconds": passed})])


def _turn_over(client: L2Client, number: int, buffers: Sequence[bytearray]) -> None:
    keys = [_stored(number * len(buffers) + place) for place in range(len(buffers))]
    client.store(keys, buffers).result()
    client.lookup_and_lock(keys).result()
    results = client.load(keys, buffers).result()
    client.unlock(keys).result()
    client.delete(keys).result()
    if set(results) != {Result.OK}:
        raise SystemExit(f"a load failed: {results}")


@contextmanager
def _client(target: str) -> Iterator[L2Client]:
    with L2Client(target, "bench") as client:
        client.wait_connected()
        yield client


def _store(client: L2Client, keys: Sequence[ObjectKey], size: int) -> None:
    results = client.store(keys, [bytes(size) for _ in keys]).result()
    if not set(results) <= {Result.OK, Result.PRESENT}:
        raise SystemExit(f"a store failed: {results}")


def _stored(number: int) -> ObjectKey:
    return ObjectKey(number.to_bytes(32, "big"), "meta-llama/Llama-3.1-8B", 0x01000100)


def _median_s(call: Callable[[], object], times: int = 9) -> float:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return summary(seconds)["median_s"]
