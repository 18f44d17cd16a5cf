"""The metrics reference, from a fresh registry of the daemon's metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from pydantic import BaseModel

from docs.generate.markdown import code, table, text
from kvchaos import __version__
from kvchaos_sidecar.config.schema import Document
from kvchaos_sidecar.metrics import Metrics

_SUFFIXES = {"counter": "_total", "info": "_info"}
_ABOUT_A_SERIES = frozenset({"le", "quantile"})


@dataclass
class Described:
    """One metric as the page shows it."""

    name: str
    kind: str
    meaning: str
    labels: dict[str, list[str]] = field(default_factory=dict)
    """Values that exist from the start, by label."""


def metrics_reference() -> str:
    """A table of the daemon's own metrics, then one of those of its process."""
    own = [metric for metric in described_metrics() if metric.name.startswith("kvchaos_")]
    process = [metric for metric in described_metrics() if not metric.name.startswith("kvchaos_")]
    return (
        "## What kvchaos counts\n\n"
        + table(("Metric", "Type", "Labels", "Meaning"), [_row(metric) for metric in own])
        + "## The process\n\n"
        + table(("Metric", "Type", "Meaning"), [_row(metric)[:2] + _row(metric)[3:] for metric in process])
    )


def described_metrics() -> list[Described]:
    """Every metric that a daemon exports, with the label values that exist before any traffic."""
    described: dict[str, Described] = {}
    for family in _families():
        name = family.name + _SUFFIXES.get(family.type, "")
        metric = described.setdefault(name, Described(name, family.type, family.documentation))
        for sample in family.samples:
            _add_labels(metric, sample.labels)
    return sorted(described.values(), key=lambda metric: metric.name)


def _families() -> Iterator[Metric]:
    for backend in _backend_types():
        registry = CollectorRegistry()
        Metrics(registry, backend, __version__)
        yield from registry.collect()


def _backend_types() -> list[str]:
    annotation = Document.model_fields["backend"].annotation
    kinds: list[type[BaseModel]] = [kind for kind in get_args(annotation) if isinstance(kind, type)]
    return [get_args(kind.model_fields["type"].annotation)[0] for kind in kinds]


def _add_labels(metric: Described, labels: Mapping[str, str]) -> None:
    for label in labels.keys() - _ABOUT_A_SERIES:
        values = metric.labels.setdefault(label, [])
        if labels[label] not in values:
            values.append(labels[label])


def _row(metric: Described) -> tuple[str, str, str, str]:
    labels = "<br>".join(
        f"{code(label)}: {', '.join(values)}" for label, values in sorted(metric.labels.items())
    )
    return code(metric.name), metric.kind, labels, text(metric.meaning)
