"""The identity of a batch of keys, whatever their order. Recorder and replay must agree on it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from kvchaos.keys import ObjectKey

DIGEST_BYTES = 12


def canonical_order(keys: Sequence[ObjectKey]) -> list[int]:
    """The positions of the keys in ascending order of the keys; equal ones in their order."""
    return sorted(range(len(keys)), key=keys.__getitem__)


def batch_id(keys: Sequence[ObjectKey]) -> str:
    """24 hexadecimal digits, the same for the same keys in any order; of no keys too."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for position in canonical_order(keys):
        chunk_hash, *rest = keys[position]
        digest.update("\0".join((chunk_hash.hex(), *map(str, rest), "")).encode())
    return digest.hexdigest()
