"""SmolLM2-135M with its real weights passes every gate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.harness.blend import make_worker, prompt, smollm2_gguf

from kvchaos.results import Result
from kvchaos_blend.chunks import chunk_hashes
from kvchaos_blend.loading import load
from kvchaos_blend.memory_store import MemoryStore
from kvchaos_blend.plan import Policy
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.worker import Worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CHUNK_TOKENS = 128
PROMPT = prompt(6 * CHUNK_TOKENS + 40, vocabulary=49152)
"""Random tokens, which amplify rounding more than text does."""
LOST = (1, 2, 4)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    memory = MemoryStore()
    yield memory
    memory.close()


def smollm2(store: MemoryStore, dtype: torch.dtype, **parts: Any) -> Worker:
    loaded = load(str(smollm2_gguf()), dtype, torch.device("cpu"))
    worker = make_worker(loaded, store, chunk_tokens=CHUNK_TOKENS, pool_tokens=1024, **parts)
    store_prompt(worker, PROMPT)
    for key in worker.key_space.keys([chunk_hashes(PROMPT, CHUNK_TOKENS)[chunk] for chunk in LOST], rank=0):
        store.load_faults[key] = Result.DROPPED
    return worker


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_segmented_recovery_passes_every_gate(store: MemoryStore, dtype: torch.dtype) -> None:
    worker = smollm2(store, dtype)
    report = recover(worker, RecoverRequest(PROMPT, Policy.SEGMENTED_PREFIX, verify=True))
    assert report.plan.kept_chunks == (0, 3, 5)
    assert report.verification is not None
    assert [gate for gate in report.verification.gates if not gate.passed] == []
