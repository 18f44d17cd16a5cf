"""A sidecar over a store that leaves hanging threads behind: ``python -m tests.harness.stuck_sidecar``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import ReadLease
from kvchaos_sidecar.backends.memory import MemoryBackend
from kvchaos_sidecar.main import run

STUCK = "a thread hangs now"


class StuckStore(MemoryBackend):
    """Memory whose reads leave a thread behind that hangs in a system call."""

    def __init__(self) -> None:
        super().__init__(1)
        self._threads = ThreadPoolExecutor(1)

    async def open_reads(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[ReadLease | Result]:
        self._threads.submit(time.sleep, 600)
        print(STUCK, flush=True)
        return await super().open_reads(keys, sizes)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], lambda document: StuckStore()))
