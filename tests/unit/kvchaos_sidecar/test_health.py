import asyncio

import pytest
from prometheus_client import CollectorRegistry

from kvchaos_sidecar.backends.contract import BackendError
from kvchaos_sidecar.backends.memory import MemoryBackend
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.health import STALE_AFTER_S, HealthMonitor
from kvchaos_sidecar.metrics import Metrics


class Patient(MemoryBackend):
    """Memory whose probe fails or hangs when told to."""

    def __init__(self) -> None:
        super().__init__(1000)
        self.failure: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()
        self.probes = 0

    async def probe(self) -> None:
        self.probes += 1
        await self.answers.wait()
        if self.failure is not None:
            raise self.failure
        await super().probe()


def monitor(patient: Patient, clock: ManualClock) -> HealthMonitor:
    return HealthMonitor(patient, clock, Metrics(CollectorRegistry(), "memory", "test"), timeout_s=0.05)


def test_a_store_that_answers_is_healthy() -> None:
    async def scenario() -> None:
        patient = Patient()
        await patient.start()
        health = monitor(patient, ManualClock())
        assert health.readiness() == "not asked yet"
        report = await health.check()
        assert (report.healthy, report.detail) == (True, "")
        assert report.usage.capacity_bytes == 1000
        assert health.readiness() == ""

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("failure", "detail"), [(BackendError("no route"), "no route"), (OSError("odd"), "OSError: odd")]
)
def test_a_store_that_fails_says_why(failure: Exception, detail: str) -> None:
    async def scenario() -> None:
        patient = Patient()
        await patient.start()
        patient.failure = failure
        health = monitor(patient, ManualClock())
        report = await health.check()
        assert (report.healthy, report.detail) == (False, detail)
        assert health.readiness() == detail

    asyncio.run(scenario())


def test_a_store_that_hangs_is_asked_once_and_holds_nobody_up() -> None:
    async def scenario() -> None:
        patient = Patient()
        await patient.start()
        patient.answers.clear()
        health = monitor(patient, ManualClock())
        first, second = await asyncio.gather(health.check(), health.check())
        assert "did not answer" in first.detail
        assert not second.healthy
        assert patient.probes == 1
        patient.answers.set()
        assert (await health.check()).healthy
        assert patient.probes == 1

    asyncio.run(scenario())


def test_an_old_report_says_that_the_loop_does_not_run() -> None:
    async def scenario() -> None:
        patient, clock = Patient(), ManualClock()
        await patient.start()
        health = monitor(patient, clock)
        await health.check()
        clock.advance(STALE_AFTER_S + 1)
        assert "event loop" in health.readiness()

    asyncio.run(scenario())
