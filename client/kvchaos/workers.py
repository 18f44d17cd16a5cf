"""A few daemon threads that do what they are given, in order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

logger = logging.getLogger(__name__)

Job = Callable[[], None]


class Workers:
    """Threads that move bytes. They never keep the interpreter from ending."""

    def __init__(self, count: int, name: str) -> None:
        self.count = count
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> bool:
        """Has ``job`` run soon. False, and it never runs, after :meth:`close`."""
        with self._lock:
            if self._closed:
                return False
            self._jobs.put(job)
        return True

    def close(self, timeout_s: float) -> bool:
        """Ends the threads after the jobs submitted so far. False when some are still busy at the end."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._jobs.put(None)
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                logger.exception("a transfer ended with an unexpected error")
            del job
