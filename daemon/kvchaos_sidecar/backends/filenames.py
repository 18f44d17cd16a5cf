"""Object keys as file names, exactly as LMCache 0.5.6's ``fs`` and ``fs_native`` adapters write them.

``<model, "/" as "-SEP-">@0x<kv_rank, 8 hex digits>@<object group, hex>@<chunk hash, hex>[@<salt>].data``

As there, a model name that itself contains ``-SEP-`` shares its files with the name that has a slash
instead, and reads back as that one.
"""

from __future__ import annotations

from functools import lru_cache

from kvchaos.keys import ObjectKey, check_key

SUFFIX = b".data"
MAX_NAME_BYTES = 255
"""NAME_MAX of Linux file systems. Some allow less and then answer ENAMETOOLONG."""

_SLASH = "-SEP-"
_UNSALTED_FIELDS = 4


def to_file_name(key: ObjectKey) -> bytes | None:
    """The name of the object's file, UTF-8; None when a directory cannot hold such a name."""
    chunk_hash, model_name, kv_rank, object_group_id, cache_salt = key
    around = _around_hash(model_name, kv_rank, object_group_id, cache_salt)
    if around is None:
        return None
    name = chunk_hash.hex().encode().join(around)
    return name if len(name) <= MAX_NAME_BYTES else None


def from_file_name(name: bytes) -> ObjectKey | None:
    """The key of an object's file; None for every name that :func:`to_file_name` does not produce."""
    if not name.endswith(SUFFIX):
        return None
    try:
        key = _parse(name[: -len(SUFFIX)].decode())
        check_key(key)
    except ValueError:
        return None
    return key if to_file_name(key) == name else None


@lru_cache(maxsize=1024)
def _around_hash(
    model_name: str, kv_rank: int, object_group_id: int, cache_salt: str
) -> tuple[bytes, bytes] | None:
    """What stands before and after the hash, the same for a whole prompt; None when no name can hold it."""
    model = model_name.replace("/", _SLASH)
    salt = f"@{cache_salt}" if cache_salt else ""
    try:
        before = f"{model}@{kv_rank:#010x}@{object_group_id:x}@".encode()
        after = salt.encode() + SUFFIX
    except UnicodeEncodeError:
        return None
    if any(forbidden in part for forbidden in (b"/", b"\0") for part in (before, after)):
        return None
    return before, after


def _parse(stem: str) -> ObjectKey:
    fields = stem.split("@")
    if len(fields) == _UNSALTED_FIELDS:
        fields.append("")
    model, kv_rank, object_group, chunk_hash, salt = fields
    return ObjectKey(
        bytes.fromhex(chunk_hash), model.replace(_SLASH, "/"), int(kv_rank, 16), int(object_group, 16), salt
    )
