"""The paged pool."""

from __future__ import annotations

import pytest
import torch

from kvchaos_blend.errors import PoolFull
from kvchaos_blend.geometry import KVGeometry
from kvchaos_blend.pool import KVPool

GEOMETRY = KVGeometry(layers=2, kv_heads=3, head_dim=4, dtype=torch.float32)


def make_pool(tokens: int = 32) -> KVPool:
    return KVPool(GEOMETRY, tokens, torch.device("cpu"), block_tokens=4)


def test_pages_have_the_documented_shape() -> None:
    assert make_pool(30).pages.shape == (2, 2, 8, 4, 3, 4)


def test_requests_never_share_blocks() -> None:
    pool = make_pool()
    with pool.lend(10) as first, pool.lend(20) as second:
        assert set(first.blocks.tolist()).isdisjoint(second.blocks.tolist())
        assert pool.free_blocks == 0
    assert pool.free_blocks == 8


def test_a_full_pool_refuses_and_takes_nothing() -> None:
    pool = make_pool()
    with (
        pool.lend(20),
        pytest.raises(PoolFull, match="3 of 8 blocks of 4 tokens free and 4 are needed"),
        pool.lend(13),
    ):
        pass
    assert pool.free_blocks == 8


def test_blocks_come_back_when_a_request_fails() -> None:
    pool = make_pool()
    with pytest.raises(RuntimeError), pool.lend(8):
        raise RuntimeError
    assert pool.free_blocks == 8


def test_a_write_lands_in_its_slots_and_nowhere_else() -> None:
    pool = make_pool()
    with pool.lend(4), pool.lend(8) as table:
        key, value = torch.full((2, 3, 4), 7.0), torch.full((2, 3, 4), 9.0)
        pool.write(1, table.slots[3:5], key, value)
        assert torch.equal(pool.read(table.slots[3:5])[1, 0], key)
        assert torch.equal(pool.read(table.slots[3:5])[1, 1], value)
    assert int((pool.pages != 0).sum()) == 2 * 2 * 3 * 4


def test_slots_follow_the_block_table() -> None:
    pool = make_pool()
    with pool.lend(9) as table:
        assert table.capacity_tokens == 12
        assert table.slots.tolist() == [b * 4 + i for b in table.blocks.tolist() for i in range(4)]
        assert table.covering(5).tolist() == table.blocks.tolist()[:2]


@pytest.mark.parametrize(("tokens", "block_tokens"), [(0, 4), (4, 0)])
def test_an_empty_pool_is_refused(tokens: int, block_tokens: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        KVPool(GEOMETRY, tokens, torch.device("cpu"), block_tokens)
