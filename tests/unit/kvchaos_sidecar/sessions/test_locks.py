from collections.abc import Sequence

import pytest

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.sessions.locks import LockTable

A, B = (ObjectKey(name, "m", 0) for name in (b"a", b"b"))


class GivenBack:
    """Hears which locks ended."""

    def __init__(self) -> None:
        self.keys: list[ObjectKey] = []

    def __call__(self, keys: Sequence[ObjectKey]) -> None:
        assert keys
        self.keys += keys


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def given_back() -> GivenBack:
    return GivenBack()


@pytest.fixture
def locks(clock: ManualClock, given_back: GivenBack) -> LockTable:
    return LockTable(clock, 10.0, given_back)


def test_a_key_is_locked_as_often_as_it_was_asked_for(locks: LockTable, given_back: GivenBack) -> None:
    locks.acquire([A, B, A])
    assert locks.total == 3
    assert locks.release([A]) == 1
    assert locks.release([A, A]) == 1
    assert locks.total == 1
    assert given_back.keys == [A, A]


def test_a_key_that_is_not_locked_is_ignored(locks: LockTable, given_back: GivenBack) -> None:
    assert locks.release([A]) == 0
    assert given_back.keys == []


def test_locks_expire_with_their_last_use(
    clock: ManualClock, locks: LockTable, given_back: GivenBack
) -> None:
    locks.acquire([A, B])
    clock.advance(6)
    locks.acquire([A])
    clock.advance(4)
    assert locks.expire() == 1
    assert given_back.keys == [B]
    clock.advance(6)
    assert locks.expire() == 2
    assert locks.total == 0
    assert given_back.keys == [B, A, A]


def test_closing_gives_every_lock_back_and_keeps_no_later_one(
    locks: LockTable, given_back: GivenBack
) -> None:
    locks.acquire([A, A])
    locks.close()
    assert given_back.keys == [A, A]
    locks.acquire([B])
    assert locks.total == 0
    assert given_back.keys == [A, A, B]
