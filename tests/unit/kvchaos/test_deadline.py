import threading

from kvchaos.deadline import Deadline


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_runs_out() -> None:
    clock = Clock()
    deadline = Deadline(5.0, clock, threading.Event())
    clock.now += 3.0
    assert deadline.remaining_s == 2.0
    assert deadline.elapsed_s == 3.0
    assert not deadline.expired()
    clock.now += 3.0
    assert deadline.remaining_s == 0.0
    assert deadline.expired()


def test_cancelling_ends_it_at_once() -> None:
    cancelled = threading.Event()
    deadline = Deadline(5.0, Clock(), cancelled)
    cancelled.set()
    assert deadline.expired()
