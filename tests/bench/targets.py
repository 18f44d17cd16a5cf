"""What the sidecar is meant to reach, each with the number that a run says about it.

All are ratios within one run, by medians; larger is better unless it says "at most".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tests.bench import blend_page
from tests.bench.grid import KIB, MIB
from tests.bench.parts import adapters, decisions, drops, inline, proxies
from tests.bench.results import Results

Runs = Mapping[str, Results]


@dataclass(frozen=True)
class Target:
    """One line of the table."""

    what: str
    bound: float
    unit: str
    part: str
    reached: Callable[[Results], list[float]]
    """The number for every case that the line speaks of."""
    at_most: bool = False

    def worst(self, run: Results) -> float | None:
        """The number that decides; None when nothing was measured."""
        numbers = self.reached(run)
        if not numbers:
            return None
        return max(numbers) if self.at_most else min(numbers)

    def best(self, run: Results) -> float | None:
        """The number at the other end."""
        numbers = self.reached(run)
        if not numbers:
            return None
        return min(numbers) if self.at_most else max(numbers)

    def holds(self, number: float) -> bool:
        """Whether a number is within the bound."""
        return number <= self.bound if self.at_most else number >= self.bound


def _ratios(
    side: str, baseline: str, operation: str, at_least: int = 0, at_most: int = 1 << 62, keys: int = 8
) -> Callable[[Results], list[float]]:
    """Ratios over the cases of an operation with object sizes in that range and at least so many keys."""

    def find(run: Results) -> list[float]:
        cases = [
            row.case
            for row in run.rows
            if row.side == side
            and row.case["operation"] == operation
            and at_least <= row.case["size_bytes"] <= at_most
            and row.case["keys"] >= keys
        ]
        return list(_numbers(run.ratio(side, baseline, **case) for case in cases))

    return find


def _lookups(baseline: str) -> Callable[[Results], list[float]]:
    def find(run: Results) -> list[float]:
        cases = [
            row.case
            for row in run.rows
            if row.side == adapters.SIDECAR_FS
            and row.case["operation"] == "lookup"
            and row.case["keys"] == 32
            and row.case["in_flight"] == 1
        ]
        return list(_numbers(run.ratio(adapters.SIDECAR_FS, baseline, **case) for case in cases))

    return find


def _half_dropped(run: Results) -> list[float]:
    cases = [row.case for row in run.rows if row.side == drops.SIDECAR and row.case["rate"] == 0.5]
    return list(_numbers(run.ratio(drops.SIDECAR, drops.FAULT_INJECT, **case) for case in cases))


def _added(ours: str) -> Callable[[Results], list[float]]:
    """Milliseconds that the sidecar adds to a load beyond what the faster of both proxies adds."""

    def find(run: Results) -> list[float]:
        numbers = []
        for row in run.rows:
            if row.side != ours or row.case["operation"] != "load":
                continue
            direct = run.value(proxies.DIRECT, "median_s", **row.case)
            theirs = [run.value(side, "median_s", **row.case) for side in (proxies.HAPROXY, proxies.NGINX)]
            if direct is None or None in theirs:
                continue
            added = row.values["median_s"] - direct
            rival = min(seconds - direct for seconds in theirs if seconds is not None)
            numbers.append((added - rival) * 1000)
        return numbers

    return find


def _judged(rules: int) -> Callable[[Results], list[float]]:
    def find(run: Results) -> list[float]:
        return [
            row.values["keys_per_s"]
            for row in run.rows
            if row.case.get("kind") == decisions.ONE_RATE
            and row.case["rules"] == rules
            and row.case["batch"] >= 32
        ]

    return find


def _rate_zero(run: Results) -> list[float]:
    free = [row for row in run.rows if row.side == "no rules"]
    return list(
        _numbers(
            run.ratio(side, "no rules", **row.case)
            for row in free
            for side in ("1,000 rules that do not match", "1,000 rules at rate 0")
        )
    )


def _cpu(run: Results) -> list[float]:
    return [
        row.values["daemon_cpu_s_per_gib"] * 1000
        for row in run.rows
        if row.case["what"] == "cpu" and row.case["size_bytes"] >= MIB
    ]


def _inline_speed(run: Results) -> list[float]:
    return [
        row.case["size_bytes"] * row.case["keys"] * row.case["in_flight"] / row.values["median_s"] / 1e9
        for row in run.rows
        if row.side == inline.INLINE and row.case["size_bytes"] == 4 * MIB
    ]


def _inline_memory(run: Results) -> list[float]:
    return [row.values["grown_bytes"] / MIB for row in run.rows if row.side == inline.INLINE]


def _numbers(values: Iterable[float | None]) -> Iterable[float]:
    return (value for value in values if value is not None)


_FS, _NATIVE = adapters.SIDECAR_FS, adapters.FS_NATIVE

TARGETS = (
    Target("load, 1 MiB and more, 8 keys and more, against fs_native", 0.95, "x", "adapters",
           _ratios(_FS, _NATIVE, "load", MIB)),
    Target("load, 256 KiB, against fs_native", 0.75, "x", "adapters",
           _ratios(_FS, _NATIVE, "load", 256 * KIB, 256 * KIB)),
    Target("load, 64 KiB, against fs_native", 0.5, "x", "adapters",
           _ratios(_FS, _NATIVE, "load", 64 * KIB, 64 * KIB)),
    Target("load against fs", 2.0, "x", "adapters", _ratios(_FS, adapters.FS, "load")),
    Target("store, 1 MiB and more, against fs_native", 0.95, "x", "adapters",
           _ratios(_FS, _NATIVE, "store", MIB)),
    Target("lookup of 32 keys against fs", 5.0, "x", "adapters", _lookups(adapters.FS)),
    Target("lookup of 32 keys against fs_native", 1 / 3, "x", "adapters", _lookups(_NATIVE)),
    Target("load at rate 0.5 against fault_inject(fs_native)", 1.3, "x", "drops", _half_dropped),
    Target("redis backend, loads of 1 MiB and more, against resp", 0.7, "x", "adapters",
           _ratios(adapters.SIDECAR_REDIS, adapters.RESP, "load", MIB)),
    Target("hosted resp, loads, against resp", 0.8, "x", "adapters",
           _ratios(adapters.SIDECAR_HOSTED_RESP, adapters.RESP, "load")),
    Target("hosted fs_native, loads, against fs_native", 0.55, "x", "adapters",
           _ratios(adapters.SIDECAR_HOSTED_FS, _NATIVE, "load")),
    Target("redis backend: latency added to a load beyond the faster proxy's", 0.0, "ms", "proxies",
           _added(proxies.SIDECAR_REDIS), at_most=True),
    Target("hosted resp: latency added to a load beyond the faster proxy's", 0.0, "ms", "proxies",
           _added(proxies.SIDECAR_HOSTED_RESP), at_most=True),
    Target("keys judged a second, 100 rules of which one applies", 400_000, "1/s", "decisions",
           _judged(100)),
    Target("keys judged a second, 1,000 rules of which one applies", 400_000, "1/s", "decisions",
           _judged(1000)),
    Target("loads with 1,000 idle rules against none", 0.97, "x", "decisions", _rate_zero),
    Target("daemon CPU for each GiB loaded, 1 MiB and more", 5.0, "ms", "scale", _cpu, at_most=True),
    Target("inline, 4 MiB objects", 1.0, "GB/s", "inline", _inline_speed),
    Target("inline, memory that the daemon grew by", 64.0, "MiB", "inline", _inline_memory, at_most=True),
    Target("segmented recovery: time over its share of a full prefill", 1.5, "x", "blend",
           blend_page.segmented_over_share, at_most=True),
    Target("segmented recovery: neither load, scatter nor model", 5.0, "%", "blend",
           blend_page.overhead_percent, at_most=True),
)  # fmt: skip
