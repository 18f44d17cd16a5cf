"""Storing a prompt's chunks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.harness.blend import CHUNK_TOKENS, CONFIGS, make_worker, prompt, random_model, recurrent_config

from kvchaos_blend.chunks import chunk_hashes
from kvchaos_blend.errors import ModelError, PromptError
from kvchaos_blend.memory_store import MemoryStore
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.reference import Reference

PROMPT = prompt(3 * CHUNK_TOKENS + 5)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    memory = MemoryStore()
    yield memory
    memory.close()


def test_full_chunks_are_stored_in_lmcaches_layout(store: MemoryStore) -> None:
    worker = make_worker(random_model(CONFIGS["qwen3"]()), store)
    report = store_prompt(worker, PROMPT)
    assert (report.chunks, report.stored, report.present, report.failed) == (3, 3, 0, {})
    assert report.stored_bytes == sum(map(len, store.objects.values()))
    key = worker.key_space.keys([chunk_hashes(PROMPT, CHUNK_TOKENS)[1]], rank=0)[0]
    stored = torch.frombuffer(bytearray(store.objects[key]), dtype=torch.float32)
    exact = Reference(worker.model.hf_model).prefill(PROMPT, 1).kv[:, :, CHUNK_TOKENS : 2 * CHUNK_TOKENS]
    layers, tokens, width = 3, CHUNK_TOKENS, 2 * 16
    torch.testing.assert_close(
        stored.view(2, layers, tokens, width), exact.transpose(0, 1).reshape(2, layers, tokens, width)
    )


def test_what_is_there_already_is_kept(store: MemoryStore) -> None:
    worker = make_worker(random_model(CONFIGS["llama"]()), store)
    store_prompt(worker, PROMPT)
    again = store_prompt(worker, PROMPT)
    assert (again.stored, again.present) == (0, 3)


def test_an_unreachable_store_is_in_the_report(store: MemoryStore) -> None:
    worker = make_worker(random_model(CONFIGS["llama"]()), store)
    store.unreachable = True
    assert store_prompt(worker, PROMPT).failed == {"unavailable": 3}


def test_a_prompt_shorter_than_a_chunk_stores_nothing(store: MemoryStore) -> None:
    report = store_prompt(make_worker(random_model(CONFIGS["llama"]()), store), PROMPT[:5])
    assert (report.chunks, report.stored) == (0, 0)
    assert store.calls == []


def test_a_recurrent_model_has_nothing_to_store(store: MemoryStore) -> None:
    worker = make_worker(random_model(recurrent_config()), store)
    with pytest.raises(ModelError, match="mamba2 carries a recurrent state"):
        store_prompt(worker, PROMPT)


def test_an_empty_prompt_is_refused(store: MemoryStore) -> None:
    with pytest.raises(PromptError, match="the prompt is empty"):
        store_prompt(make_worker(random_model(CONFIGS["llama"]()), store), ())
