"""Whether the backend answers, asked so that a backend that hangs holds nobody up."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from kvchaos_sidecar.backends.contract import Backend, BackendError, Usage
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.metrics import Metrics

log = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 1.0
PROBE_INTERVAL_S = 2.0
STALE_AFTER_S = 10.0
"""A report older than this says that the event loop does not run."""


@dataclass(frozen=True, slots=True)
class BackendHealth:
    """What the backend last said."""

    healthy: bool
    detail: str
    """Why it is not healthy; empty when it is."""
    usage: Usage
    """The last known."""
    checked_at: float
    """Reading of the clock."""


class HealthMonitor:
    """Asks the backend how it is, one question at a time.

    Attributes:
        latest: what it last said. May be read from any thread.
    """

    def __init__(
        self, backend: Backend, clock: Clock, metrics: Metrics, timeout_s: float = PROBE_TIMEOUT_S
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._question: asyncio.Task[BackendHealth] | None = None
        self.latest = self._report("not asked yet", Usage(0, backend.capacity_bytes))

    async def check(self) -> BackendHealth:
        """Asks, and waits for the answer no longer than the timeout. Joins a question that is under way."""
        if self._question is None or self._question.done():
            self._question = asyncio.create_task(self._ask())
        await asyncio.wait({self._question}, timeout=self._timeout_s)
        if self._question.done():
            self._conclude(self._question.result())
        else:
            late = f"the backend did not answer within {self._timeout_s:g} s"
            self._conclude(self._report(late, self.latest.usage))
        return self.latest

    def readiness(self) -> str:
        """Why the daemon is not ready to serve; empty when it is. May be called from any thread."""
        age_s = self._clock.monotonic() - self.latest.checked_at
        if age_s > STALE_AFTER_S:
            return f"the event loop has not run for {age_s:.0f} s"
        return self.latest.detail

    async def _ask(self) -> BackendHealth:
        try:
            await self._backend.probe()
            usage = await self._backend.usage()
        except BackendError as error:
            return self._report(str(error), self.latest.usage)
        except Exception as error:
            log.exception("the backend's probe failed in a way that is not foreseen")
            return self._report(f"{type(error).__name__}: {error}", self.latest.usage)
        return self._report("", usage)

    def _report(self, detail: str, usage: Usage) -> BackendHealth:
        return BackendHealth(not detail, detail, usage, self._clock.monotonic())

    def _conclude(self, health: BackendHealth) -> None:
        if health.healthy and not self.latest.healthy:
            log.info("the backend answers")
        if self.latest.healthy and not health.healthy:
            log.warning("the backend is unhealthy: %s", health.detail)
        self._metrics.backend_answers(health.healthy)
        self.latest = health
