"""Shapes and sizes of KV."""

from __future__ import annotations

import pytest
import torch

from kvchaos_blend.errors import ModelError
from kvchaos_blend.geometry import KVGeometry

LLAMA_3_8B = KVGeometry(layers=32, kv_heads=8, head_dim=128, dtype=torch.bfloat16)


def test_a_token_of_llama_3_8b_takes_128_kib() -> None:
    assert LLAMA_3_8B.token_bytes == 128 * 1024
    assert LLAMA_3_8B.token_bytes * 32768 / 1e9 == pytest.approx(4.29, rel=0.01)


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_the_objects_of_all_ranks_are_the_chunk(ranks: int) -> None:
    shape = LLAMA_3_8B.object_shape(256, ranks)
    assert shape == (2, 32, 256, 1024 // ranks)
    values = shape[0] * shape[1] * shape[2] * shape[3]
    assert LLAMA_3_8B.object_bytes(256, ranks) == values * 2
    assert LLAMA_3_8B.object_bytes(256, ranks) * ranks == 256 * LLAMA_3_8B.token_bytes


def test_heads_that_cannot_be_split_are_refused() -> None:
    with pytest.raises(ModelError, match="8 KV heads cannot be split over 3 ranks"):
        LLAMA_3_8B.heads_per_rank(3)
