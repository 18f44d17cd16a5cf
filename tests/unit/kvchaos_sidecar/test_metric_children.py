"""The children of a metric, kept by their labels."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, generate_latest

from kvchaos_sidecar.metric_children import MetricChildren


def test_known_labels_are_exposed_from_the_start_and_others_once_they_are_used() -> None:
    registry = CollectorRegistry()
    children = MetricChildren(Counter("a_total", "A.", ["op"], registry=registry), [("known",)])
    assert b'a_total{op="known"} 0.0' in generate_latest(registry)
    assert b"new" not in generate_latest(registry)
    children["new",].inc(2)
    children["new",].inc(3)
    assert b'a_total{op="new"} 5.0' in generate_latest(registry)
    assert len(children) == 2
