"""Chunk hashes and object keys, equal to those of an LMCache server.

A chunk's hash chains the one before it, so that it names the chunk's tokens and every token before them
(lmcache/v1/multiprocess/token_hasher.py, hash algorithm "blake3").
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import blake3

from kvchaos.keys import ObjectKey, check_key
from kvchaos_blend.errors import PromptError

DEFAULT_CHUNK_TOKENS = 256
MAX_TOKEN_ID = 2**32 - 1
MAX_RANKS = 255


def chunk_hashes(token_ids: Sequence[int], chunk_tokens: int) -> list[bytes]:
    """The 32-byte hash of each full chunk of ``token_ids``, in order. A sub-chunk end has none.

    Raises:
        PromptError: a token id is not an unsigned 32-bit integer.
    """
    full = len(token_ids) // chunk_tokens
    hashes: list[bytes] = []
    previous = _hash(bytes(8), (0,))
    for index in range(full):
        previous = _hash(previous, token_ids[index * chunk_tokens : (index + 1) * chunk_tokens])
        hashes.append(previous)
    return hashes


def rank_bitmap(world_size: int, rank: int) -> int:
    """LMCache's ``kv_rank`` for one rank of a tensor-parallel group on one host."""
    return world_size << 24 | rank << 16 | world_size << 8 | rank


@dataclass(frozen=True, slots=True)
class KeySpace:
    """What all keys of one served model have in common."""

    model_name: str
    """As the cache server names it, usually the Hugging Face id. Without ``@``."""
    chunk_tokens: int = DEFAULT_CHUNK_TOKENS
    """Tokens in a chunk."""
    cache_salt: str = ""
    """Isolation salt."""
    ranks: int = 1
    """Tensor-parallel ranks; each holds an equal share of the KV heads."""

    def __post_init__(self) -> None:
        """Raises InvalidKeyError or ValueError, naming the field, when no valid key could be made."""
        if self.chunk_tokens < 1:
            raise ValueError(f"chunk_tokens {self.chunk_tokens} is not at least 1")
        if not 1 <= self.ranks <= MAX_RANKS:
            raise ValueError(f"ranks {self.ranks} is not in [1, {MAX_RANKS}]")
        check_key(self.keys([bytes(32)], rank=0)[0])

    def keys(self, hashes: Sequence[bytes], rank: int) -> list[ObjectKey]:
        """The object keys of one rank's share of the chunks."""
        kv_rank = rank_bitmap(self.ranks, rank)
        return [ObjectKey(chunk_hash, self.model_name, kv_rank, 0, self.cache_salt) for chunk_hash in hashes]


def _hash(previous: bytes, token_ids: Sequence[int]) -> bytes:
    try:
        packed = struct.pack(f">{len(token_ids)}I", *token_ids)
    except struct.error as error:
        bad = next(token for token in token_ids if not 0 <= token <= MAX_TOKEN_ID)
        raise PromptError(f"token id {bad} is not in [0, {MAX_TOKEN_ID}]") from error
    return blake3.blake3(previous + packed).digest()
