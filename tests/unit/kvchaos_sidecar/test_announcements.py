from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.announcements import Announcer
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.load import validate
from kvchaos_sidecar.journal import Journal
from kvchaos_sidecar.metrics import Metrics
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.governor import Governor


class Announced:
    """A governor whose doings are announced."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.registry = CollectorRegistry()
        self.journal = Journal(self.clock)
        document = {"version": 1, "backend": {"type": "memory", "capacity_bytes": 1}, "environment": "lab"}
        safety = {"cap": {"faults_per_second": 1}}
        rules = [{"name": "all", "match": {"op": "load"}, "fault": "drop"}]
        self.governor = Governor(validate({**document, "safety": safety, "rules": rules}), self.clock)
        Announcer(self.governor, Metrics(self.registry, "memory", "0"), self.journal)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def notes(self) -> list[tuple[str, str, int]]:
        return [(event.reason, event.rule, event.batch_size) for event in self.journal.recent()]


@pytest.fixture
def announced() -> Announced:
    return Announced()


def test_halt_and_resume_are_counted_and_noted_once(announced: Announced) -> None:
    announced.governor.halt()
    announced.governor.halt()
    announced.governor.resume()
    assert announced.notes() == [("halted", "", 0), ("resumed", "", 0)]
    assert announced.value("kvchaos_halts_total") == 1


def test_what_the_cap_spares_is_counted_and_noted(announced: Announced) -> None:
    announced.governor.judge(Call(Operation.LOAD, [ObjectKey(bytes([n]), "m", 0) for n in range(4)]))
    assert announced.notes() == [("capped", "all", 3)]
    assert announced.value("kvchaos_rule_capped_total", rule="all") == 3


def test_a_change_that_ends_by_itself_is_counted_and_noted(announced: Announced) -> None:
    announced.governor.switch_rule("all", on=False, time_to_live=timedelta(seconds=1))
    announced.clock.advance(1)
    announced.governor.expire()
    assert announced.notes() == [("expired", "all", 0)]
    assert announced.value("kvchaos_expired_total") == 1
