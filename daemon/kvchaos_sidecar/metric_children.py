"""The children of a metric at hand: finding one by its labels takes longer than counting in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from prometheus_client import Counter, Histogram

MetricT = TypeVar("MetricT", Counter, Histogram)


class MetricChildren(dict[tuple[str, ...], MetricT], Generic[MetricT]):
    """A metric's children by label values. For metrics whose children are never removed."""

    def __init__(self, metric: MetricT, known: Iterable[tuple[str, ...]]) -> None:
        """``known``: labels whose children exist from the start; others are made when they are asked for."""
        super().__init__()
        self._metric: MetricT = metric
        for labels in known:
            self.__missing__(labels)

    def __missing__(self, labels: tuple[str, ...]) -> MetricT:
        child: MetricT = self._metric.labels(*labels)
        self[labels] = child
        return child
