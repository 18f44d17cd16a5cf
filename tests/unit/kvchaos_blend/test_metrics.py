"""What the worker counts."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from tests.harness.blend_reports import VERIFICATION, recovery_report

from kvchaos_blend.metrics import BlendMetrics
from kvchaos_blend.plan import Policy
from kvchaos_blend.report import StoreReport


@pytest.fixture
def metrics() -> BlendMetrics:
    return BlendMetrics(CollectorRegistry(), "1.2.3", "org/model", "sdpa")


def value(metrics: BlendMetrics, name: str, **labels: str) -> float:
    found = metrics.registry.get_sample_value(name, labels)
    assert found is not None, f"{name}{labels} does not exist"
    return found


def test_a_recovery_moves_every_counter(metrics: BlendMetrics) -> None:
    metrics.recovered(recovery_report(verification=VERIFICATION))
    expected = [
        ("recoveries_total", {"policy": "segmented_prefix", "ending": "verification_failed"}, 1),
        ("fallbacks_total", {"asked": "segmented_prefix", "used": "prefix"}, 1),
        ("prompt_tokens_total", {"policy": "prefix", "action": "recomputed"}, 23),
        ("prompt_tokens_total", {"policy": "prefix", "action": "dropped"}, 32),
        ("chunks_total", {"outcome": "loaded"}, 2),
        ("chunks_total", {"outcome": "unused"}, 2),
        ("bytes_total", {"op": "load"}, 2 * 2**20),
        ("saved_tokens_total", {"policy": "prefix"}, 32),
        ("made_tokens_total", {}, 2),
        ("healed_chunks_total", {}, 1),
        ("gates_total", {"gate": "recomputed_kv", "result": "failed"}, 1),
        ("gates_total", {"gate": "filled", "result": "passed"}, 1),
        ("phase_seconds_sum", {"policy": "prefix", "phase": "load"}, 0.25),
        ("phase_seconds_count", {"policy": "prefix", "phase": "load"}, 1),
    ]
    for name, labels, count in expected:
        assert value(metrics, f"kvchaos_blend_{name}", **labels) == count


def test_counters_that_never_moved_read_zero(metrics: BlendMetrics) -> None:
    labels = {"policy": "prefix", "ending": "cancelled"}
    assert value(metrics, "kvchaos_blend_recoveries_total", **labels) == 0
    metrics.ended_without_report(Policy.PREFIX, "cancelled")
    assert value(metrics, "kvchaos_blend_recoveries_total", **labels) == 1


def test_a_stored_prompt_is_counted(metrics: BlendMetrics) -> None:
    metrics.stored(StoreReport(100, 6, 3, 1, {"no_space": 2}, 4096))
    for outcome, count in (("stored", 3), ("present", 1), ("no_space", 2)):
        assert value(metrics, "kvchaos_blend_stored_chunks_total", outcome=outcome) == count
    assert value(metrics, "kvchaos_blend_bytes_total", op="store") == 4096


def test_gauges_read_the_present(metrics: BlendMetrics) -> None:
    metrics.read_state_from(lambda: 2, lambda: 30, 64, lambda: True)
    for name, now in (("running", 2), ("pool_free_blocks", 30), ("pool_blocks", 64), ("store_connected", 1)):
        assert value(metrics, f"kvchaos_blend_{name}") == now
