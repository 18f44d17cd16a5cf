"""A client process that loads the same batch for a while: ``python -m tests.bench.load_loop``.

Prints one line of JSON when it is ready and one when it is done.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from kvchaos.client import L2Client
from kvchaos.keys import ObjectKey
from kvchaos.results import Result


def keys(count: int) -> list[ObjectKey]:
    """The keys of one prompt."""
    return [ObjectKey(number.to_bytes(32, "big"), "bench-model", 0x01000100) for number in range(count)]


def main(target: str, count: int, size: int, seconds: float) -> None:
    """Loads ``count`` objects of ``size`` bytes again and again."""
    buffers = [bytearray(size) for _ in range(count)]
    batch = keys(count)
    with L2Client(target, "bench") as client:
        client.wait_connected()
        client.load(batch, buffers).result()
        print(json.dumps({"ready": True}), flush=True)
        sys.stdin.readline()
        taken = []
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            started = time.perf_counter()
            results = client.load(batch, buffers).result()
            taken.append(time.perf_counter() - started)
            if set(results) != {Result.OK}:
                raise SystemExit(f"a load failed: {results}")
        print(json.dumps({"batches": len(taken), "median_s": statistics.median(taken)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
