"""The few shapes of PromQL that the dashboards use. All are limited to the chosen instances."""

from __future__ import annotations

_WINDOW = "$__rate_interval"


def series(metric: str, *conditions: str) -> str:
    """The metric of the chosen instances, where the label ``conditions`` hold."""
    selector = ", ".join(('instance=~"$instance"', *conditions))
    return f"{metric}{{{selector}}}"


def summed(function: str, metric: str, *conditions: str, by: str = "", window: str = _WINDOW) -> str:
    """Sum of ``rate`` or ``increase`` of a counter, one series for each value of the labels ``by``."""
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} ({function}({series(metric, *conditions)}[{window}]))"


def quantile(share: float, histogram: str, *conditions: str, by: str = "") -> str:
    """A quantile of a histogram over the chosen instances, one series for each value of the label ``by``."""
    grouping = f"le, {by}" if by else "le"
    buckets = summed("rate", f"{histogram}_bucket", *conditions, by=grouping)
    return f"histogram_quantile({share}, {buckets})"


def ratio(part: str, whole: str) -> str:
    """``part`` of ``whole``, without a value where ``whole`` is 0."""
    return f"{part} / ({whole} > 0)"


def or_zero(expression: str) -> str:
    """0 where the expression has no series, as of a counter whose labels are not known beforehand."""
    return f"{expression} or vector(0)"
