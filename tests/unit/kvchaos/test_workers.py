import threading

import pytest

from kvchaos.workers import Workers


def test_jobs_submitted_before_the_end_are_done() -> None:
    done: list[int] = []
    workers = Workers(1, "test")
    gate = threading.Event()
    workers.submit(gate.wait)
    for number in range(5):
        workers.submit(lambda number=number: done.append(number))
    gate.set()
    assert workers.close(10.0)
    assert done == [0, 1, 2, 3, 4]


def test_nothing_is_taken_after_the_end() -> None:
    workers = Workers(1, "test")
    assert workers.close(10.0)
    assert workers.close(10.0)
    assert not workers.submit(lambda: None)


def test_a_job_that_raises_is_logged_and_the_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    workers = Workers(1, "test")
    seen = threading.Event()
    workers.submit(lambda: 1 // 0)
    workers.submit(seen.set)
    assert seen.wait(10)
    assert workers.close(10.0)
    assert "ZeroDivisionError" in caplog.text


def test_a_thread_that_is_busy_is_not_waited_for() -> None:
    workers = Workers(1, "test")
    gate = threading.Event()
    workers.submit(gate.wait)
    assert not workers.close(0.0)
    gate.set()
    assert workers.close(10.0)


def test_threads_do_not_keep_the_interpreter_alive() -> None:
    workers = Workers(2, "named")
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("named-")]
    assert len(threads) == 2
    assert all(thread.daemon for thread in threads)
    workers.close(10.0)
