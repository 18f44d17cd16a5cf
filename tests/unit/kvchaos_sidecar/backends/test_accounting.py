"""Counting as LMCache's adapters count."""

from __future__ import annotations

import threading

from kvchaos_sidecar.backends.accounting import Accounting
from kvchaos_sidecar.backends.contract import Usage


def test_counts_in_all_and_per_salt() -> None:
    accounting = Accounting(capacity_bytes=100)
    accounting.stored("a", 10)
    accounting.stored("", 5)
    accounting.stored("a", 1)
    accounting.deleted("a", 4)
    assert accounting.usage() == Usage(12, 100, {"a": 7, "": 5})


def test_a_salt_without_bytes_is_not_listed() -> None:
    accounting = Accounting()
    accounting.stored("a", 10)
    accounting.deleted("a", 10)
    assert accounting.usage() == Usage(0, 0, {})


def test_deleting_what_was_never_counted_stops_at_zero() -> None:
    accounting = Accounting()
    accounting.stored("a", 10)
    accounting.deleted("b", 50)
    accounting.deleted("a", 11)
    assert accounting.usage() == Usage(0, 0, {})
    accounting.stored("a", 3)
    assert accounting.usage() == Usage(3, 0, {"a": 3})


def test_a_usage_is_a_snapshot() -> None:
    accounting = Accounting()
    before = accounting.usage()
    accounting.stored("a", 1)
    assert before == Usage(0, 0, {})


def test_threads_do_not_lose_counts() -> None:
    accounting = Accounting()

    def work() -> None:
        for _ in range(5_000):
            accounting.stored("a", 2)
            accounting.deleted("a", 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert accounting.usage() == Usage(20_000, 0, {"a": 20_000})
