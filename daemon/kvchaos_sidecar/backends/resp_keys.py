"""Object keys as Redis keys, exactly as LMCache 0.5.6's native connectors (``resp`` and others) write them.

``<model>@<kv_rank, 8 hex digits>@<object group, hex>@<chunk hash, hex>[@<salt>]``
"""

from __future__ import annotations

from kvchaos.keys import ObjectKey, check_key

_UNSALTED_FIELDS = 4
_GLOB_CHARACTERS = frozenset("*?[]\\")


def to_redis_key(key: ObjectKey) -> bytes:
    """The object's key, UTF-8."""
    base = f"{key.model_name}@{key.kv_rank:08x}@{key.object_group_id:x}@{key.chunk_hash.hex()}"
    return f"{base}@{key.cache_salt}".encode() if key.cache_salt else base.encode()


def from_redis_key(name: bytes) -> ObjectKey | None:
    """The object's key; None for every name that :func:`to_redis_key` does not produce."""
    try:
        key = _parse(name.decode())
        check_key(key)
    except ValueError:
        return None
    return key if to_redis_key(key) == name else None


def pattern_for(model_name: str) -> bytes:
    """A glob pattern, for SCAN, that every key of the model matches; of any model when the name is empty."""
    if not model_name:
        return b"*@*@*@*"
    literal = "".join(f"\\{char}" if char in _GLOB_CHARACTERS else char for char in model_name)
    return f"{literal}@*@*@*".encode()


def _parse(name: str) -> ObjectKey:
    fields = name.split("@")
    if len(fields) == _UNSALTED_FIELDS:
        fields.append("")
    model, kv_rank, object_group, chunk_hash, salt = fields
    return ObjectKey(bytes.fromhex(chunk_hash), model, int(kv_rank, 16), int(object_group, 16), salt)
