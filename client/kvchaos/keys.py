"""Object keys: the identity of one chunk's KV in an L2 store, and their columns on the wire.

The fields and their invariants are LMCache's (``lmcache/v1/distributed/api.py``, ``ObjectKey``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from kvchaos.errors import InvalidKeyError
from kvchaos.v1 import common_pb2

MAX_BATCH_KEYS = 10_000
MAX_HASH_BYTES = 64
MAX_SALT_CHARS = 128
MAX_UINT32 = 2**32 - 1

_SALT_FORBIDDEN = frozenset("@/\\\0")

_T = TypeVar("_T")


class ObjectKey(NamedTuple):
    """One chunk's KV of one rank and object group.

    The constructor does not check; :func:`check_key` and :func:`decode_keys` do.
    """

    chunk_hash: bytes
    """Content hash of the chunk, 1 to 64 bytes."""
    model_name: str
    """Name of the model, without ``@``."""
    kv_rank: int
    """Rank bitmap, an unsigned 32-bit integer."""
    object_group_id: int = 0
    """Index of the object group, an unsigned 32-bit integer."""
    cache_salt: str = ""
    """Isolation salt, at most 128 characters, without ``@ / \\`` and NUL."""

    def short(self) -> str:
        """The first 12 hex digits of the chunk hash, for logs."""
        return self.chunk_hash[:6].hex()


def check_key(key: ObjectKey) -> None:
    """Raises InvalidKeyError, naming the field and the reason, when ``key`` breaks an invariant."""
    _check_hash_length(len(key.chunk_hash))
    _check_model_name(key.model_name)
    _check_uint32("kv_rank", key.kv_rank)
    _check_uint32("object_group_id", key.object_group_id)
    _check_salt(key.cache_salt)


def encode_keys(keys: Sequence[ObjectKey]) -> common_pb2.KeyBatch:
    """The keys as columns; a column whose values are all equal is sent once."""
    return common_pb2.KeyBatch(
        chunk_hash=[key.chunk_hash for key in keys],
        model_name=_column([key.model_name for key in keys]),
        kv_rank=_column([key.kv_rank for key in keys]),
        object_group_id=_column([key.object_group_id for key in keys]),
        cache_salt=_column([key.cache_salt for key in keys]),
    )


def decode_keys(batch: common_pb2.KeyBatch) -> list[ObjectKey]:
    """The keys of a batch, checked.

    Raises:
        InvalidKeyError: more than 10,000 keys, a column that has neither one entry nor one per key, or a
            value that breaks an invariant.
    """
    hashes = batch.chunk_hash
    count = len(hashes)
    if count > MAX_BATCH_KEYS:
        raise InvalidKeyError(f"a batch of {count} keys is over the limit of {MAX_BATCH_KEYS}; split it")
    for length in set(map(len, hashes)):
        _check_hash_length(length)
    for model_name in set(batch.model_name):
        _check_model_name(model_name)
    for salt in set(batch.cache_salt):
        _check_salt(salt)
    columns = (
        hashes,
        _expand("model_name", batch.model_name, count),
        _expand("kv_rank", batch.kv_rank, count),
        _expand("object_group_id", batch.object_group_id, count),
        _expand("cache_salt", batch.cache_salt, count),
    )
    return list(map(ObjectKey._make, zip(*columns, strict=True)))


def _column(values: list[_T]) -> list[_T]:
    return values[:1] if values and values.count(values[0]) == len(values) else values


def _expand(name: str, column: Sequence[_T], count: int) -> Iterable[_T]:
    if len(column) == count:
        return column
    if len(column) == 1:
        return [column[0]] * count
    raise InvalidKeyError(f"column {name} has {len(column)} entries; expected 1 or {count}")


def _check_hash_length(length: int) -> None:
    if not 1 <= length <= MAX_HASH_BYTES:
        raise InvalidKeyError(f"chunk_hash has {length} bytes; expected 1 to {MAX_HASH_BYTES}")


def _check_model_name(model_name: str) -> None:
    if "@" in model_name or "\0" in model_name:
        raise InvalidKeyError(f"model_name {model_name!r} must not contain '@' or NUL")


def _check_uint32(name: str, value: int) -> None:
    if not 0 <= value <= MAX_UINT32:
        raise InvalidKeyError(f"{name} {value} is not in [0, {MAX_UINT32}]")


def _check_salt(salt: str) -> None:
    if len(salt) > MAX_SALT_CHARS:
        raise InvalidKeyError(f"cache_salt has {len(salt)} characters; the limit is {MAX_SALT_CHARS}")
    if not _SALT_FORBIDDEN.isdisjoint(salt):
        raise InvalidKeyError(f"cache_salt {salt!r} must not contain '@', '/', '\\' or NUL")
