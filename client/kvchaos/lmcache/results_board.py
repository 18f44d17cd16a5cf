"""Results waiting to be fetched: one family of tasks, with the event fd that LMCache polls."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

from lmcache.v1.platform import create_event_notifier

T = TypeVar("T")


class ResultsBoard(Generic[T]):
    """The finished tasks of one family. Each result is handed out once. Thread-safe."""

    def __init__(self) -> None:
        self._notifier = create_event_notifier()
        self._descriptor: int = self._notifier.fileno()
        self._lock = threading.Lock()
        self._results: dict[int, T] = {}
        self._again: set[int] = set()
        self._closed = False

    @property
    def event_fd(self) -> int:
        """Readable when results have come since it was last drained."""
        return self._descriptor

    def post(self, task_id: int, result: T, again: bool = False) -> None:
        """Keeps a result and signals it; ``again``: once more after it was taken, which is a fault.

        After :meth:`close` nobody fetches it any more.
        """
        with self._lock:
            if self._closed:
                return
            self._results[task_id] = result
            if again:
                self._again.add(task_id)
            self._notifier.notify()

    def take(self, task_id: int) -> T | None:
        """The result of a task, once; None when it has none or it was taken."""
        with self._lock:
            result = self._results.pop(task_id, None)
            if result is not None and task_id in self._again and not self._closed:
                self._again.discard(task_id)
                self._results[task_id] = result
                self._notifier.notify()
            return result

    def take_all(self) -> dict[int, T]:
        """Every result that was not taken yet, by task."""
        with self._lock:
            results, self._results = self._results, {}
        return results

    def close(self) -> None:
        """Closes the event fd. Idempotent."""
        with self._lock:
            self._closed = True
            self._notifier.close()
