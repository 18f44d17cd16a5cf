"""Chunk hashes and keys, against LMCache's own code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lmcache.v1.distributed.api import ObjectKey as LMCacheKey
from lmcache.v1.multiprocess.token_hasher import TokenHasher

from kvchaos.errors import InvalidKeyError
from kvchaos_blend.chunks import KeySpace, chunk_hashes, rank_bitmap
from kvchaos_blend.errors import PromptError

TOKENS = st.lists(st.integers(0, 2**32 - 1), max_size=70)


@given(tokens=TOKENS, chunk_tokens=st.integers(1, 20))
def test_hashes_are_those_of_lmcache(tokens: list[int], chunk_tokens: int) -> None:
    theirs = TokenHasher(chunk_size=chunk_tokens, hash_algorithm="blake3").compute_chunk_hashes(tokens)
    assert chunk_hashes(tokens, chunk_tokens) == theirs


def test_a_hash_names_every_token_before_it() -> None:
    first = chunk_hashes([1, 2, 3, 4, 5, 6], 2)
    second = chunk_hashes([9, 2, 3, 4, 5, 6], 2)
    assert all(a != b for a, b in zip(first, second, strict=True))


def test_a_sub_chunk_end_has_no_hash() -> None:
    assert len(chunk_hashes(range(7), 3)) == 2
    assert chunk_hashes([1, 2], 3) == []


@pytest.mark.parametrize("token", [-1, 2**32])
def test_a_token_that_is_no_uint32_is_named(token: int) -> None:
    with pytest.raises(PromptError, match=f"token id {token} is not in"):
        chunk_hashes([0, token], 2)


@pytest.mark.parametrize(("ranks", "rank"), [(1, 0), (4, 3), (8, 5)])
def test_the_rank_bitmap_is_lmcaches(ranks: int, rank: int) -> None:
    assert rank_bitmap(ranks, rank) == LMCacheKey.ComputeKVRank(ranks, rank, ranks, rank)


def test_keys_carry_model_rank_and_salt() -> None:
    key = KeySpace("org/model", cache_salt="tenant", ranks=2).keys([b"h" * 32], rank=1)[0]
    assert key == (b"h" * 32, "org/model", 0x02010201, 0, "tenant")


def test_a_model_name_that_no_key_can_hold_is_refused() -> None:
    with pytest.raises(InvalidKeyError, match="model_name"):
        KeySpace("model@revision")


@pytest.mark.parametrize(("field", "value"), [("chunk_tokens", 0), ("ranks", 0), ("ranks", 256)])
def test_a_bad_number_is_named(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{field} {value}"):
        KeySpace("m", **{field: value})
