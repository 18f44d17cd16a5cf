"""Time by phase."""

from __future__ import annotations

import pytest

from kvchaos_blend.progress import Event, Phase, PhaseStarted, Stopwatch


class ManualClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_phases_add_up_and_are_announced_once() -> None:
    clock, events = ManualClock(), list[Event]()
    stopwatch = Stopwatch(clock, events.append)
    for phase, seconds in ((Phase.LOAD, 2.0), (Phase.SCATTER, 1.0), (Phase.LOAD, 3.0)):
        with stopwatch.phase(phase):
            clock.now_s += seconds
        clock.now_s += 0.25
    assert stopwatch.by_name() == {"load": 5.0, "scatter": 1.0}
    assert stopwatch.total_s == 6.75
    assert events == [PhaseStarted(Phase.LOAD), PhaseStarted(Phase.SCATTER)]


def test_a_phase_that_fails_is_counted_too() -> None:
    clock = ManualClock()
    stopwatch = Stopwatch(clock, lambda _: None)

    def fail_after_a_while() -> None:
        clock.now_s += 4.0
        raise InterruptedError

    with pytest.raises(InterruptedError), stopwatch.phase(Phase.HEAL):
        fail_after_a_while()
    assert stopwatch.by_name() == {"heal": 4.0}


def test_queued_work_counts_where_it_was_queued() -> None:
    clock = ManualClock()

    def settle() -> None:
        clock.now_s += 1.0

    stopwatch = Stopwatch(clock, lambda _: None, settle)
    with stopwatch.phase(Phase.RECOMPUTE):
        clock.now_s += 0.5
    assert stopwatch.by_name() == {"recompute": 1.5}
