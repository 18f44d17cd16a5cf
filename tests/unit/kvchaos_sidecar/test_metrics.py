import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kvchaos.results import Result
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.load import validate
from kvchaos_sidecar.faults.drop import Drop
from kvchaos_sidecar.metrics import Metrics, is_armed
from kvchaos_sidecar.rules.governor import Governor
from kvchaos_sidecar.rules.strike import Strike
from kvchaos_sidecar.rules.verdict import Verdict
from kvchaos_sidecar.sessions.session import EndReason


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry, "fs", "1.2.3")


def governor(**fault_inject: object) -> Governor:
    backend = {"type": "memory", "capacity_bytes": 1}
    document = {"version": 1, "backend": backend, "fault_inject": fault_inject}
    return Governor(validate(document), ManualClock())


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("kvchaos_requests_total", {"op": "load", "result_code": "ok"}),
        ("kvchaos_keys_total", {"op": "load", "result": "dropped"}),
        ("kvchaos_bytes_total", {"op": "store", "transport": "inline"}),
        ("kvchaos_transfer_failures_total", {"op": "load", "transport": "handoff"}),
        ("kvchaos_rule_evaluated_total", {"rule": "fault_inject"}),
        ("kvchaos_rule_fired_total", {"rule": "fault_inject", "reason": "rate", "fault": "drop"}),
        ("kvchaos_drops_total", {"rule": "fault_inject", "reason": "tail_ratio"}),
        ("kvchaos_request_duration_seconds_count", {"op": "lookup", "outcome": "faulted"}),
        ("kvchaos_backend_errors_total", {"backend": "fs", "result": "no_space"}),
        ("kvchaos_reloads_total", {"result": "refused"}),
        ("kvchaos_sessions_ended_total", {"reason": "drained"}),
        ("kvchaos_sessions", {}),
        ("kvchaos_locks", {}),
        ("kvchaos_grants", {}),
        ("kvchaos_generation", {}),
        ("kvchaos_halted", {}),
        ("kvchaos_injection_active", {}),
        ("kvchaos_lock_expirations_total", {}),
        ("kvchaos_grant_expirations_total", {}),
        ("kvchaos_handoff_refusals_total", {}),
    ],
)
def test_what_has_not_happened_yet_reads_0(
    registry: CollectorRegistry, metrics: Metrics, name: str, labels: dict[str, str]
) -> None:
    assert registry.get_sample_value(name, labels) == 0


def test_it_says_what_was_built(registry: CollectorRegistry, metrics: Metrics) -> None:
    assert registry.get_sample_value("kvchaos_build_info", {"version": "1.2.3", "backend": "fs"}) == 1


def test_every_name_has_the_prefix_and_every_counter_its_ending(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    for family in registry.collect():
        assert family.name.startswith(("kvchaos_", "process_"))
    for line in generate_latest(registry).decode().splitlines():
        if line.startswith("# TYPE kvchaos_") and line.endswith(" counter"):
            assert line.split()[2].endswith("_total")


def test_a_verdict_counts_per_rule_and_reason(registry: CollectorRegistry, metrics: Metrics) -> None:
    strike = Strike("fault_inject", Drop(), [0, 1, 2], ["rate", "rate", "index"])
    metrics.judged(Verdict(1, {"fault_inject": 8}, [strike]))
    fired = {"rule": "fault_inject", "reason": "rate"}
    assert registry.get_sample_value("kvchaos_rule_evaluated_total", {"rule": "fault_inject"}) == 8
    assert registry.get_sample_value("kvchaos_rule_fired_total", {**fired, "fault": "drop"}) == 2
    assert registry.get_sample_value("kvchaos_drops_total", fired) == 2


def test_failures_of_the_store_are_counted_apart_from_misses_and_drops(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.keys("load", [Result.OK, Result.NOT_FOUND, Result.DROPPED, *[Result.IO_ERROR] * 3])
    metrics.backend_failed([Result.OK, Result.NOT_FOUND, True, 4096, Result.IO_ERROR, Result.IO_ERROR])
    errors = {"backend": "fs", "result": "io_error"}
    assert registry.get_sample_value("kvchaos_backend_errors_total", errors) == 2
    assert registry.get_sample_value("kvchaos_keys_total", {"op": "load", "result": "io_error"}) == 3
    assert (
        registry.get_sample_value("kvchaos_backend_errors_total", {**errors, "result": "not_found"}) is None
    )


@pytest.mark.parametrize(
    ("faults", "armed"),
    [
        ({}, False),
        ({"seed": 3}, False),
        ({"rate": 0.1}, True),
        ({"gap_indices": [0]}, True),
        ({"gap_tail_ratios": [0.0]}, True),
    ],
)
def test_injection_is_active_when_something_is_armed_and_not_halted(
    registry: CollectorRegistry, metrics: Metrics, faults: dict[str, object], armed: bool
) -> None:
    rules = governor(**faults)
    rules.subscribe(metrics.faults_changed)
    metrics.faults_changed(rules.snapshot())
    assert is_armed(rules.snapshot()) is armed
    assert registry.get_sample_value("kvchaos_injection_active") == armed
    assert registry.get_sample_value("kvchaos_generation") == 1
    rules.halt()
    assert registry.get_sample_value("kvchaos_injection_active") == 0
    assert registry.get_sample_value("kvchaos_halted") == 1


def test_gauges_of_the_present_state_are_read_when_scraped(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    held = [1.0]
    metrics.read_state_from(lambda: held[0], lambda: 2.0, lambda: 3.0, lambda: 4.0)
    held[0] = 7.0
    assert registry.get_sample_value("kvchaos_sessions") == 7
    assert registry.get_sample_value("kvchaos_locks") == 2
    assert registry.get_sample_value("kvchaos_grants") == 3
    assert registry.get_sample_value("kvchaos_held_calls") == 4


def test_ended_sessions_are_counted_by_reason(registry: CollectorRegistry, metrics: Metrics) -> None:
    metrics.session_ended(EndReason.HANDOFF_LOST)
    assert registry.get_sample_value("kvchaos_sessions_ended_total", {"reason": "handoff_lost"}) == 1
