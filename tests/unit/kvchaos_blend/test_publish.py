"""Putting chunks from the pool into the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.harness.blend import CHUNK_TOKENS, CONFIGS, make_worker, prompt, random_model

from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.chunks import chunk_hashes
from kvchaos_blend.errors import Cancelled
from kvchaos_blend.memory_store import MemoryStore
from kvchaos_blend.publish import Published, publish
from kvchaos_blend.worker import Worker

HASHES = chunk_hashes(prompt(3 * CHUNK_TOKENS), CHUNK_TOKENS)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    memory = MemoryStore()
    yield memory
    memory.close()


@pytest.fixture
def worker(store: MemoryStore) -> Worker:
    return make_worker(random_model(CONFIGS["llama"]()), store, ranks=2)


def put(worker: Worker, chunks: list[int], replace: tuple[int, ...] = ()) -> Published:
    with worker.pool.lend(3 * CHUNK_TOKENS) as table:
        worker.pool.fill(table, 0.5)
        return publish(worker, HASHES, table, chunks, CancelToken(), replace)


def test_a_chunk_is_an_object_for_each_rank_and_counts_once(store: MemoryStore, worker: Worker) -> None:
    assert put(worker, [0, 2]) == Published(stored=2, present=0, failed={})
    expected = {key for rank in range(2) for key in worker.key_space.keys([HASHES[0], HASHES[2]], rank)}
    assert set(store.objects) == expected


def test_a_chunk_of_which_one_rank_was_missing_counts_as_stored(store: MemoryStore, worker: Worker) -> None:
    put(worker, [0, 1])
    del store.objects[worker.key_space.keys([HASHES[1]], rank=1)[0]]
    assert put(worker, [0, 1]) == Published(stored=1, present=1, failed={})


def test_only_what_is_to_be_replaced_is_deleted_first(store: MemoryStore, worker: Worker) -> None:
    put(worker, [0, 1])
    for key in store.objects:
        store.objects[key] = b"damaged"
    assert put(worker, [0, 1], replace=(1,)) == Published(stored=1, present=1, failed={})
    damaged = {key.chunk_hash for key, value in store.objects.items() if value == b"damaged"}
    assert damaged == {HASHES[0]}


def test_nothing_to_store_asks_nobody(store: MemoryStore, worker: Worker) -> None:
    assert put(worker, []) == Published(0, 0, {})
    assert store.calls == []


def test_a_caller_who_gave_up_is_not_a_store_that_failed(store: MemoryStore, worker: Worker) -> None:
    cancel = CancelToken()
    cancel.cancel("gone")
    with worker.pool.lend(3 * CHUNK_TOKENS) as table, pytest.raises(Cancelled, match="gone"):
        publish(worker, HASHES, table, [0], cancel)
