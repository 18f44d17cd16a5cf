"""Counting what fails, and saying it once instead of every time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from logging import Logger

from kvchaos.errors import SidecarUnavailable
from kvchaos.results import Result

MAX_SAMPLES = 3

_NO_FAILURE = frozenset({Result.OK, Result.PRESENT})
_QUIET = frozenset({Result.NOT_FOUND, Result.DROPPED})
"""Failures that a healthy sidecar reports: not found, and dropped on purpose, which it tells about itself."""


class TroubleLog:
    """Failed keys by operation and reason. A warning is written when trouble begins, not while it goes on.

    Trouble of single keys (no space, an I/O error) is over when a batch of that operation goes through
    without it; trouble of whole batches (no answer in time) is over when any batch is answered.
    """

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[str]] = {}
        self._going_on: set[tuple[str, str]] = set()

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Keys that failed so far, by operation and reason."""
        with self._lock:
            return {operation: dict(counts) for operation, counts in self._counts.items()}

    def answered(self, operation: str, keys: Sequence[object], results: Sequence[Result]) -> None:
        """Takes the outcome of a batch that was answered."""
        failed: dict[Result, list[object]] = {}
        for key, result in zip(keys, results, strict=True):
            if result not in _NO_FAILURE:
                failed.setdefault(result, []).append(key)
        for result, losers in failed.items():
            self._count(operation, result.label, len(losers))
        loud = {(operation, result.label) for result in failed if result not in _QUIET}
        with self._lock:
            new = loud - self._going_on
            self._going_on = {entry for entry in self._going_on if entry[0] not in (operation, "")} | loud
        for result, losers in failed.items():
            if (operation, result.label) in new:
                self._warn(operation, result.label, losers, len(keys))

    def failed(self, operation: str, keys: Sequence[object], error: BaseException) -> None:
        """Takes a batch that was not answered. A lost connection is counted; the connection log tells it."""
        if isinstance(error, SidecarUnavailable):
            self._count(operation, "unavailable", len(keys))
            return
        reason = type(error).__name__
        self._count(operation, reason, len(keys))
        with self._lock:
            new = ("", reason) not in self._going_on
            self._going_on.add(("", reason))
        if new:
            self._warn(operation, f"{reason}: {error}", keys, len(keys))

    def _count(self, operation: str, reason: str, keys: int) -> None:
        with self._lock:
            self._counts.setdefault(operation, Counter())[reason] += keys

    def _warn(self, operation: str, reason: str, failed: Sequence[object], planned: int) -> None:
        samples = ", ".join(map(_short, failed[:MAX_SAMPLES]))
        self._logger.warning(
            "kvchaos: %s failed for %d of %d keys: %s (for example %s). Not repeated while it goes on.",
            operation,
            len(failed),
            planned,
            reason,
            samples,
        )


def _short(key: object) -> str:
    chunk_hash = getattr(key, "chunk_hash", None)
    return chunk_hash[:6].hex() if isinstance(chunk_hash, bytes) else repr(key)
