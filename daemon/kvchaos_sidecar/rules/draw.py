"""Seeded draws: the same seed and key give the same number, on every machine."""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Callable
from hashlib import blake2b

from kvchaos.keys import ObjectKey

BUCKETS = 1_000_000


def bucket_function(prefix: str) -> Callable[[ObjectKey], int]:
    """A function from a key to its bucket in [0, 1,000,000), by the hash of ``prefix`` and its identity.

    It remembers what keys share: the hash state after the prefix, and the encoded tail of the identity.
    """
    seeded = blake2b(f"{prefix}:".encode(), digest_size=8)
    tails: dict[tuple[str, int, int, str], bytes] = {}

    def bucket(key: ObjectKey) -> int:
        shared = key[1:]
        tail = tails.get(shared)
        if tail is None:
            model_name, kv_rank, object_group_id, cache_salt = shared
            tail = tails[shared] = f":{model_name}:{kv_rank}:{object_group_id}:{cache_salt}".encode()
        state = seeded.copy()
        state.update(hexlify(key[0]) + tail)
        return int.from_bytes(state.digest(), "big") % BUCKETS

    return bucket
