"""Locks that are given back however a request ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from kvchaos.errors import SidecarUnavailable
from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_blend.lease import Lease
from kvchaos_blend.memory_store import MemoryStore

KEYS = [ObjectKey(bytes([n]), "m", 1) for n in range(3)]


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    memory = MemoryStore()
    memory.objects = dict.fromkeys(KEYS[:2], b"x")
    yield memory
    memory.close()


def test_only_what_was_locked_is_unlocked(store: MemoryStore) -> None:
    lease = Lease(store)
    assert lease.lookup(KEYS).result() == [Result.OK, Result.OK, Result.NOT_FOUND]
    assert store.locked == dict.fromkeys(KEYS[:2], 1)
    assert lease.release() == ""
    assert store.locked == {}


def test_releasing_twice_unlocks_once(store: MemoryStore) -> None:
    lease, other = Lease(store), Lease(store)
    for each in (lease, other):
        each.lookup(KEYS).result()
    lease.release()
    lease.release()
    lease.release_soon()
    store.wait_until_idle()
    assert store.locked == dict.fromkeys(KEYS[:2], 1)


def test_locks_outlast_the_work_under_them(store: MemoryStore) -> None:
    lease, work = Lease(store), Future[None]()
    lease.lookup(KEYS).result()
    lease.covers(work)
    lease.release_soon()
    store.wait_until_idle()
    assert store.locked
    work.set_result(None)
    store.wait_until_idle()
    assert store.locked == {}


def test_releasing_waits_for_the_work_under_the_locks(store: MemoryStore) -> None:
    lease, work = Lease(store), Future[None]()
    lease.lookup(KEYS).result()
    lease.covers(work)
    releasing = threading.Thread(target=lease.release)
    releasing.start()
    releasing.join(timeout=0.1)
    assert store.locked
    work.set_result(None)
    releasing.join()
    assert store.locked == {}


def test_a_lookup_without_an_answer_may_have_locked_everything(store: MemoryStore) -> None:
    class LosesAnswers(MemoryStore):
        def lookup_and_lock(self, keys: object) -> Future[list[Result]]:
            super().lookup_and_lock(KEYS).result()
            lost: Future[list[Result]] = Future()
            lost.set_exception(SidecarUnavailable("the answer was lost"))
            return lost

    lossy = LosesAnswers()
    lossy.objects = dict.fromkeys(KEYS, b"x")
    lease = Lease(lossy)
    lease.lookup(KEYS)
    assert lossy.locked
    lease.release()
    assert lossy.locked == {}
    lossy.close()


def test_a_failed_unlock_is_told(store: MemoryStore) -> None:
    lease = Lease(store)
    lease.lookup(KEYS).result()
    store.unreachable = True
    assert "cannot be reached" in lease.release()
