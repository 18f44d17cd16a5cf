"""The gates of verification, and the bugs that they must not let through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.harness.blend import CHUNK_TOKENS, CONFIGS, make_worker, prompt, random_model
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from kvchaos.results import Result
from kvchaos_blend.attention.contract import LayerPages, PagedAttention
from kvchaos_blend.attention.sdpa_gaps import SdpaGaps
from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.chunks import chunk_hashes
from kvchaos_blend.memory_store import MemoryStore
from kvchaos_blend.model import CausalModel
from kvchaos_blend.plan import Policy, Run
from kvchaos_blend.pool import BlockTable, KVPool
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.report import Gate, Outcome, RecoveryReport
from kvchaos_blend.verify import Verifier, layer_errors

PROMPT = prompt(7 * CHUNK_TOKENS + 6)
"""With the tokens made, it leaves some slots of its last block unused."""
LAST_CHUNK_END = 7 * CHUNK_TOKENS
LOST = (1, 2, 4)


class MaskOffByOne(SdpaGaps):
    """A query does not see its own position."""

    def attend(
        self, query: torch.Tensor, pages: LayerPages, prepared: Any, scale: float, window: int | None
    ) -> torch.Tensor:
        shifted = [Run(tile.start - 1, tile.end - 1) if tile.start else tile for tile in prepared.tiles]
        return super().attend(query, pages, type(prepared)(tuple(shifted), prepared.blocks), scale, window)


class OneBottomRightCall:
    """All gaps as if they were one run that ends where the last one does."""

    name = "one-call"

    def prepare(self, runs: Sequence[Run], table: BlockTable) -> tuple[int, torch.Tensor]:
        return runs[-1].end, table.covering(runs[-1].end)

    def attend(
        self, query: torch.Tensor, pages: LayerPages, prepared: Any, scale: float, window: int | None
    ) -> torch.Tensor:
        end, blocks = prepared
        keys, values = (p.index_select(0, blocks).flatten(0, 1)[:end].transpose(0, 1)[None] for p in pages)
        mask = causal_lower_right(query.shape[0], end)
        by_head = query.transpose(0, 1)[None]
        output = scaled_dot_product_attention(by_head, keys, values, mask, scale=scale, enable_gqa=True)
        return output[0].transpose(0, 1)


class RopeOffByOne(CausalModel):
    """Gap tokens are rotated as if they stood one position later."""

    def _forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, kv_pass: Any, want_logits: bool
    ) -> torch.Tensor | None:
        shifted = torch.where(positions < LAST_CHUNK_END, positions + 1, positions)
        return super()._forward(tokens, shifted, kv_pass, want_logits)


class ZeroFilledGap(CausalModel):
    """Gaps are filled with zeros instead of being computed."""

    def compute(self, token_ids: Any, runs: Any, pool: KVPool, table: BlockTable, *rest: Any) -> Any:
        logits = super().compute(token_ids, runs, pool, table, *rest)
        for run in runs:
            if 0 < run.start < LAST_CHUNK_END:
                pool.slots[:, :, table.slots[run.start : run.end]] = 0.0
        return logits


class StrayWrite(CausalModel):
    """Writes one value into the block beyond the request's last."""

    def compute(self, token_ids: Any, runs: Any, pool: KVPool, table: BlockTable, *rest: Any) -> Any:
        logits = super().compute(token_ids, runs, pool, table, *rest)
        pool.slots[0, 0, int(table.slots[-1]) + 1, 0, 0] = 0.5
        return logits


class StrayWriteInOwnBlock(CausalModel):
    """Writes one value into the request's last block, beyond its last position."""

    def compute(self, token_ids: Any, runs: Any, pool: KVPool, table: BlockTable, *rest: Any) -> Any:
        logits = super().compute(token_ids, runs, pool, table, *rest)
        pool.slots[0, 0, table.slots[-1], 0, 0] = 0.5
        return logits


class SpoilsLoadedChunk(CausalModel):
    """Changes one value of a chunk that was loaded."""

    def compute(self, token_ids: Any, runs: Any, pool: KVPool, table: BlockTable, *rest: Any) -> Any:
        logits = super().compute(token_ids, runs, pool, table, *rest)
        pool.slots[-1, 1, table.slots[3], 0, 0] *= 1 + 2**-7
        return logits


class OmitsAToken(CausalModel):
    """Leaves the first token of the first gap uncomputed."""

    def compute(self, token_ids: Any, runs: Any, pool: KVPool, table: BlockTable, *rest: Any) -> Any:
        first, *others = runs
        shorter = first if first.tokens == 1 or first.start == 0 else Run(first.start + 1, first.end)
        return super().compute(token_ids, [shorter, *others], pool, table, *rest)


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    memory = MemoryStore()
    yield memory
    memory.close()


def recover_with(
    store: MemoryStore,
    *,
    dtype: torch.dtype = torch.float32,
    attention: PagedAttention | None = None,
    model: type[CausalModel] = CausalModel,
    heal: bool = False,
) -> RecoveryReport:
    """Stores the prompt with a sound worker, loses three chunks, and recovers with the given one."""
    loaded = random_model(CONFIGS["llama"](), dtype)
    store_prompt(make_worker(loaded, store), PROMPT)
    worker = make_worker(random_model(CONFIGS["llama"](), dtype), store, attention=attention, model=model)
    hashes = chunk_hashes(PROMPT, CHUNK_TOKENS)
    for key in worker.key_space.keys([hashes[chunk] for chunk in LOST], rank=0):
        store.load_faults[key] = Result.NOT_FOUND
    return recover(worker, RecoverRequest(PROMPT, Policy.SEGMENTED_PREFIX, verify=True, heal=heal))


def failed(report: RecoveryReport) -> dict[str, Gate]:
    assert report.verification is not None
    assert (report.outcome is Outcome.RECOVERED) == report.verification.passed
    return {gate.name: gate for gate in report.verification.gates if not gate.passed}


PLANTED: dict[str, dict[str, Any]] = {
    "mask off by one": {"attention": MaskOffByOne()},
    "RoPE off by one": {"model": RopeOffByOne},
    "one bottom-right call over all gaps": {"attention": OneBottomRightCall()},
    "zero-filled gap": {"model": ZeroFilledGap},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bug", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_bug_fails_the_gate_on_the_gaps_kv(
    store: MemoryStore, bug: dict[str, Any], dtype: torch.dtype
) -> None:
    gates = failed(recover_with(store, dtype=dtype, **bug))
    assert (
        gates["recomputed_kv"].measured
        > (100 if dtype == torch.float32 else 2) * gates["recomputed_kv"].limit
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_sound_recovery_passes_every_gate(store: MemoryStore, dtype: torch.dtype) -> None:
    report = recover_with(store, dtype=dtype)
    assert failed(report) == {}
    assert report.verification is not None
    assert {gate.name for gate in report.verification.gates} == {
        "loaded_bytes",
        "canaries",
        "filled",
        "recomputed_kv",
        "loaded_kv",
        "greedy_tokens",
    }
    assert [error.layer for error in report.verification.layers] == [0, 1, 2]
    assert len(report.tokens) == 32


@pytest.mark.parametrize("model", [StrayWrite, StrayWriteInOwnBlock])
def test_a_write_outside_the_request_is_seen(store: MemoryStore, model: type[CausalModel]) -> None:
    assert "canaries" in failed(recover_with(store, model=model))


def test_a_changed_byte_of_a_loaded_chunk_is_seen(store: MemoryStore) -> None:
    gates = failed(recover_with(store, model=SpoilsLoadedChunk))
    assert gates["loaded_bytes"].measured == 1


def test_a_slot_left_unfilled_is_seen(store: MemoryStore) -> None:
    assert "filled" in failed(recover_with(store, model=OmitsAToken))


def test_a_stored_chunk_with_wrong_but_finite_values_is_seen(store: MemoryStore) -> None:
    loaded = random_model(CONFIGS["llama"]())
    worker = make_worker(loaded, store)
    store_prompt(worker, PROMPT)
    key = worker.key_space.keys([chunk_hashes(PROMPT, CHUNK_TOKENS)[5]], rank=0)[0]
    store.objects[key] = store.objects[key][:-4] + b"\0\0\0\0"
    report = recover(worker, RecoverRequest(PROMPT, Policy.SEGMENTED_PREFIX, verify=True))
    assert "loaded_kv" in failed(report)


class CountingToken(CancelToken):
    """Counts how often it is asked, which is before every layer of every forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def check(self) -> None:
        self.asked += 1
        super().check()


def test_the_references_of_the_last_prompt_can_be_kept_and_are_used_for_it_only(store: MemoryStore) -> None:
    worker = make_worker(random_model(CONFIGS["llama"]()), store)
    worker = replace(worker, verifier=Verifier(worker.model, CHUNK_TOKENS, keep_last=True))
    store_prompt(worker, PROMPT)

    def asked(token_ids: tuple[int, ...]) -> int:
        token = CountingToken()
        report = recover(
            worker, RecoverRequest(token_ids, Policy.SEGMENTED_PREFIX, verify=True), cancel=token
        )
        assert failed(report) == {}
        return token.asked

    first = asked(PROMPT)
    assert asked(PROMPT) < first / 2
    assert asked(PROMPT[:-1]) > first / 2
    key = worker.key_space.keys([chunk_hashes(PROMPT, CHUNK_TOKENS)[5]], rank=0)[0]
    store.objects[key] = bytes(len(store.objects[key]))
    spoilt = recover(worker, RecoverRequest(PROMPT[:-1], Policy.SEGMENTED_PREFIX, verify=True))
    assert "loaded_kv" in failed(spoilt)


def test_what_failed_verification_is_not_stored_back(store: MemoryStore) -> None:
    recover_with(store, model=ZeroFilledGap, heal=True)
    calls_after_the_prompt_was_stored = store.calls[store.calls.index("lookup_and_lock") :]
    assert "store" not in calls_after_the_prompt_was_stored


def test_layer_errors_are_relative_and_the_worst_run_counts() -> None:
    exact = torch.ones(2, 2, 10, 1, 4)
    actual = exact.clone()
    actual[1, 0, 8] += 0.5
    errors = layer_errors(actual, exact, [Run(0, 5), Run(8, 9)])
    assert (errors[0].key, errors[0].value, errors[1].value) == (0.0, 0.0, 0.0)
    assert errors[1].key == pytest.approx(0.5)
    actual[0, 1, 2] = torch.nan
    assert layer_errors(actual, exact, [Run(0, 5)])[0].value == float("inf")
