"""Chunk objects between staging memory and the pool."""

from __future__ import annotations

import pytest
import torch

from kvchaos_blend.geometry import KVGeometry
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable, KVPool
from kvchaos_blend.scatter import HostMemory, Staging, gather, scatter

LAYERS, HEADS, HEAD_DIM, TOKENS = 3, 4, 8, 5


def geometry(dtype: torch.dtype = torch.float32) -> KVGeometry:
    return KVGeometry(LAYERS, HEADS, HEAD_DIM, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("blocks", [[2, 3, 4, 5], [6, 1, 3, 2]], ids=["in a row", "scattered"])
def test_what_is_scattered_comes_back(blocks: list[int], ranks: int, dtype: torch.dtype) -> None:
    pool = KVPool(geometry(dtype), 32, torch.device("cpu"), block_tokens=4)
    objects = torch.randn(ranks, *geometry(dtype).object_shape(TOKENS, ranks)).to(dtype)
    table = BlockTable(blocks, 4, torch.device("cpu"))
    scatter(pool, table, Run(7, 12), objects)
    assert torch.equal(gather(pool, table, Run(7, 12), ranks), objects)
    assert int(pool.pages.count_nonzero()) == int(objects.count_nonzero())


def test_an_object_is_k_then_v_by_layer_token_head() -> None:
    pool = KVPool(geometry(), 8, torch.device("cpu"), block_tokens=4)
    flat = torch.arange(2 * LAYERS * TOKENS * HEADS * HEAD_DIM, dtype=torch.float32)
    with pool.lend(8) as table:
        scatter(pool, table, Run(0, TOKENS), flat.view(1, 2, LAYERS, TOKENS, HEADS * HEAD_DIM))
        value_of_layer_1_token_2_head_3 = pool.read(table.slots[2:3])[1, 1, 0, 3]
    start = ((1 * LAYERS + 1) * TOKENS + 2) * HEADS * HEAD_DIM + 3 * HEAD_DIM
    assert torch.equal(value_of_layer_1_token_2_head_3, flat[start : start + HEAD_DIM])


def test_a_rank_holds_its_own_heads() -> None:
    pool = KVPool(geometry(), 8, torch.device("cpu"), block_tokens=4)
    objects = torch.zeros(2, *geometry().object_shape(TOKENS, 2))
    objects[1] = 1.0
    with pool.lend(8) as table:
        scatter(pool, table, Run(0, TOKENS), objects)
        by_head = pool.read(table.slots[:TOKENS]).amax(dim=(0, 1, 2, 4))
    assert by_head.tolist() == [0.0, 0.0, 1.0, 1.0]


def test_buffers_are_the_staging_memory() -> None:
    staging = Staging(
        geometry(torch.bfloat16), chunks=2, chunk_tokens=TOKENS, ranks=2, host=HostMemory(pinned=False)
    )
    buffers = staging.buffers(rank=1)
    assert [buffer.nbytes for buffer in buffers] == [geometry(torch.bfloat16).object_bytes(TOKENS, 2)] * 2
    staging.objects.zero_()
    buffers[1][:] = b"\x80\x3f" * (buffers[1].nbytes // 2)
    assert torch.all(staging.objects[1, 1] == 1.0)
    assert int(staging.objects.count_nonzero()) == staging.objects[1, 1].numel()


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_a_chunk_that_is_not_finite_is_seen(poison: float) -> None:
    staging = Staging(geometry(), chunks=2, chunk_tokens=TOKENS, ranks=2, host=HostMemory(pinned=False))
    staging.objects.zero_()
    assert staging.is_finite(0)
    staging.objects[1, 1, 1, 2, 3, 4] = poison
    assert staging.is_finite(0)
    assert not staging.is_finite(1)


def test_memory_is_kept_for_the_next_who_needs_it() -> None:
    host = HostMemory(pinned=False)
    first = Staging(geometry(), chunks=3, chunk_tokens=TOKENS, ranks=2, host=host)
    place = first.objects.data_ptr()
    first.give_back()
    second = Staging(geometry(torch.bfloat16), chunks=2, chunk_tokens=TOKENS, ranks=1, host=host)
    assert second.objects.data_ptr() == place
    third = Staging(geometry(), chunks=3, chunk_tokens=TOKENS, ranks=2, host=host)
    assert third.objects.data_ptr() != place


def test_memory_that_is_too_small_is_let_go() -> None:
    host = HostMemory(pinned=False)
    host.give_back(host.take(10))
    assert host.take(20).numel() == 20
    host.give_back(host.take(30))
    host.give_back(host.take(5))
    assert host.take(30).numel() == 30
