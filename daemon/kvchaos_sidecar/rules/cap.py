"""Limits on what all rules together may hit. They win over every rule."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.config.safety import Cap
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.strike import Strike
from kvchaos_sidecar.rules.verdict import Verdict

SHARE_WINDOW_S = 10


@dataclass(frozen=True, slots=True)
class Limited:
    """What a cap left of a verdict."""

    verdict: Verdict
    capped: Mapping[str, int]
    """Keys that were spared, by rule."""


class Capper:
    """Counts hits and keys, and spares what would be too much: the later rules' hits and positions first."""

    def __init__(self, cap: Cap, clock: Clock) -> None:
        self._per_second = cap.faults_per_second
        self._share = cap.share_of_keys
        self._clock = clock
        self._tokens = float(cap.faults_per_second or 0)
        self._filled_at = clock.monotonic()
        self._seconds: deque[list[float]] = deque()

    def limit(self, call: Call, verdict: Verdict) -> Limited:
        """What of the verdict may happen. Counts it."""
        if self._per_second is None and self._share is None:
            return Limited(verdict, {})
        keys = len(call.positions)
        wanted = sum(len(strike.positions) for strike in verdict.strikes)
        allowed = min(wanted, self._allowed(keys))
        self._tokens -= allowed
        self._seconds[-1][2] += allowed
        if allowed == wanted:
            return Limited(verdict, {})
        return _cut(verdict, allowed)

    def _allowed(self, keys: int) -> int:
        now = self._clock.monotonic()
        limits = []
        if self._per_second is not None:
            self._tokens = min(self._per_second, self._tokens + (now - self._filled_at) * self._per_second)
            self._filled_at = now
            limits.append(int(self._tokens))
        looked_at, hit = self._count(now, keys)
        if self._share is not None:
            limits.append(int(self._share * looked_at - hit))
        return max(0, min(limits))

    def _count(self, now: float, keys: int) -> tuple[float, float]:
        """Keys looked at and hit within the window, these keys included."""
        second = int(now)
        while self._seconds and self._seconds[0][0] <= second - SHARE_WINDOW_S:
            self._seconds.popleft()
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append([second, 0, 0])
        self._seconds[-1][1] += keys
        return sum(entry[1] for entry in self._seconds), sum(entry[2] for entry in self._seconds)


def _cut(verdict: Verdict, allowed: int) -> Limited:
    strikes: list[Strike] = []
    capped: dict[str, int] = {}
    for strike in verdict.strikes:
        count = min(allowed, len(strike.positions))
        allowed -= count
        if count:
            strikes.append(strike if count == len(strike.positions) else strike.limited(count))
        if count < len(strike.positions):
            capped[strike.rule] = len(strike.positions) - count
    return Limited(Verdict(verdict.generation, verdict.evaluated, strikes), capped)
