"""Asking the sidecar what its store holds, without ever waiting long for the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from kvchaos.client import L2Client
from kvchaos.errors import KVChaosError
from kvchaos.reports import Usage

PATIENCE_S = 0.25


class UsageProbe:
    """The sidecar's usage, or the last one known when it does not answer at once. Thread-safe.

    A sidecar that does not answer is waited for once for each question, and there is one question at a time.
    """

    def __init__(self, client: L2Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._question: Future[Usage] | None = None
        self._asked_at = 0.0
        self._last: Usage | None = None

    def latest(self) -> Usage | None:
        """What the store holds now, or held when it was last heard of; None before the first answer."""
        with self._lock:
            if self._question is None or self._question.done():
                self._question = self._client.usage()
                self._asked_at = self._clock()
            question = self._question
            patience_s = max(0.0, self._asked_at + PATIENCE_S - self._clock())
        try:
            usage = question.result(patience_s)
        except (KVChaosError, TimeoutError):
            return self._last
        self._last = usage
        return usage
