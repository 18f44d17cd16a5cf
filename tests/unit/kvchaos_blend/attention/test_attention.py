"""Every attention implementation against a dense mask written out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kvchaos_blend.attention.contract import Heads, LayerPages, PagedAttention
from kvchaos_blend.attention.flex import Flex
from kvchaos_blend.attention.probe import probe
from kvchaos_blend.attention.sdpa_gaps import MAX_TILE_TOKENS, SdpaGaps
from kvchaos_blend.attention.varlen import Varlen
from kvchaos_blend.geometry import KVGeometry
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable, KVPool

HEADS, KV_HEADS, HEAD_DIM = 6, 2, 16
SCALE = HEAD_DIM**-0.5


def reference_varlen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    *,
    scale: float,
    window_size: tuple[int, int],
    enable_gqa: bool,
    seqused_k: torch.Tensor,
    block_table: torch.Tensor,
) -> torch.Tensor:
    """What torch.nn.attention.varlen.varlen_attn documents, for machines without its kernels."""
    assert cu_seq_k is None
    assert enable_gqa
    assert max_q == int(cu_seq_q.diff().max())
    assert max_k >= int(seqused_k.max())
    assert cu_seq_q.dtype == seqused_k.dtype == block_table.dtype == torch.int32
    left, right = window_size
    assert right == 0
    outputs = []
    for sequence in range(seqused_k.numel()):
        keys = key[block_table[sequence].long()].flatten(0, 1)[: seqused_k[sequence]]
        values = value[block_table[sequence].long()].flatten(0, 1)[: seqused_k[sequence]]
        part = query[cu_seq_q[sequence] : cu_seq_q[sequence + 1]]
        offset = keys.shape[0] - part.shape[0]
        distance = torch.arange(part.shape[0])[:, None] + offset - torch.arange(keys.shape[0])
        visible = distance >= 0
        if left >= 0:
            visible &= distance <= left
        outputs.append(dense(part, keys, values, visible))
    return torch.cat(outputs)


def dense(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, visible: torch.Tensor
) -> torch.Tensor:
    """Softmax attention in double precision under a mask [queries, keys]."""
    groups = HEADS // KV_HEADS
    wide_keys = keys.repeat_interleave(groups, dim=1).double()
    wide_values = values.repeat_interleave(groups, dim=1).double()
    scores = torch.einsum("qhd,khd->hqk", query.double(), wide_keys) * SCALE
    weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
    return torch.einsum("hqk,khd->qhd", weights, wide_values)


IMPLEMENTATIONS: dict[str, Callable[[], PagedAttention]] = {
    "sdpa": SdpaGaps,
    "flex": Flex,
    "varlen": lambda: Varlen(reference_varlen),
}

RUNS = {
    "one run from the start": [Run(0, 23)],
    "one gap": [Run(8, 16)],
    "several gaps": [Run(3, 8), Run(12, 13), Run(30, 41)],
    "one token": [Run(40, 41)],
    "the last of a block": [Run(7, 8)],
    "longer than a tile": [Run(5, 5 + 2 * MAX_TILE_TOKENS + 3)],
}


class Scene:
    """Random pages of one request among others, and what attention over them must give."""

    def __init__(self, runs: list[Run], dtype: torch.dtype = torch.float32) -> None:
        self.runs = runs
        self.tokens = runs[-1].end
        geometry = KVGeometry(1, KV_HEADS, HEAD_DIM, dtype)
        self.pool = KVPool(geometry, self.tokens + 24, torch.device("cpu"), block_tokens=4)
        self.pool.pages.fill_(torch.nan)
        generator = torch.Generator().manual_seed(3)
        self.table = BlockTable(
            torch.randperm(self.pool.total_blocks, generator=generator).tolist()[: -(-self.tokens // 4)],
            4,
            torch.device("cpu"),
        )
        shape = (self.tokens, KV_HEADS, HEAD_DIM)
        self.keys = torch.randn(shape, generator=generator).to(dtype)
        self.values = torch.randn(shape, generator=generator).to(dtype)
        self.pool.write(0, self.table.slots[: self.tokens], self.keys, self.values)
        self.positions = torch.cat([torch.arange(run.start, run.end) for run in runs])
        self.query = torch.randn((len(self.positions), HEADS, HEAD_DIM), generator=generator).to(dtype)

    def attend(self, attention: PagedAttention, window: int | None = None) -> torch.Tensor:
        pages = LayerPages(self.pool.pages[0, 0], self.pool.pages[0, 1])
        prepared: Any = attention.prepare(self.runs, self.table)
        return attention.attend(self.query, pages, prepared, SCALE, window)

    def expected(self, window: int | None = None) -> torch.Tensor:
        distance = self.positions[:, None] - torch.arange(self.tokens)
        visible = (distance >= 0) & (distance < (window or self.tokens))
        return dense(self.query, self.keys, self.values, visible)


@pytest.mark.parametrize("runs", RUNS.values(), ids=RUNS.keys())
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_a_query_sees_exactly_the_positions_up_to_its_own(name: str, runs: list[Run]) -> None:
    scene = Scene(runs)
    output = scene.attend(IMPLEMENTATIONS[name]())
    assert output.shape == scene.query.shape
    torch.testing.assert_close(output.double(), scene.expected(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("window", [1, 5, 64])
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_a_sliding_window_hides_what_lies_behind_it(name: str, window: int) -> None:
    scene = Scene(RUNS["several gaps"])
    output = scene.attend(IMPLEMENTATIONS[name](), window)
    torch.testing.assert_close(output.double(), scene.expected(window), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_reduced_precision_stays_close(name: str) -> None:
    scene = Scene(RUNS["several gaps"], torch.bfloat16)
    output = scene.attend(IMPLEMENTATIONS[name]())
    torch.testing.assert_close(output.double(), scene.expected(), atol=2e-2, rtol=2e-2)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="FlexAttention is compiled on a GPU only")
def test_the_compiled_kernel_computes_the_same() -> None:
    """Several shapes one after the other, because a compiled kernel is reused and recompiled."""
    probe(Flex.compiled(), Heads(HEADS, KV_HEADS, HEAD_DIM), torch.device("cuda"), torch.float32)
