"""Object keys as file names, exactly as LMCache 0.5.6's ``fs`` and ``fs_native`` adapters write them.

``<model, "/" as "-SEP-">@0x<kv_rank, 8 hex digits>@<object group, hex>@<chunk hash, hex>[@<salt>].data``

As there, a model name that itself contains ``-SEP-`` shares its files with the name that has a slash
instead, and reads back as that one.
"""

from __future__ import annotations

from kvchaos.keys import ObjectKey, check_key

SUFFIX = b".data"
MAX_NAME_BYTES = 255
"""NAME_MAX of Linux file systems. Some allow less and then answer ENAMETOOLONG."""

_SLASH = "-SEP-"
_UNSALTED_FIELDS = 4


def to_file_name(key: ObjectKey) -> bytes | None:
    """The name of the object's file, UTF-8; None when a directory cannot hold such a name."""
    model = key.model_name.replace("/", _SLASH)
    stem = f"{model}@{key.kv_rank:#010x}@{key.object_group_id:x}@{key.chunk_hash.hex()}"
    salt = f"@{key.cache_salt}" if key.cache_salt else ""
    try:
        name = f"{stem}{salt}".encode() + SUFFIX
    except UnicodeEncodeError:
        return None
    if len(name) > MAX_NAME_BYTES or b"/" in name or b"\0" in name:
        return None
    return name


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


def _parse(stem: str) -> ObjectKey:
    fields = stem.split("@")
    if len(fields) == _UNSALTED_FIELDS:
        fields.append("")
    model, kv_rank, object_group, chunk_hash, salt = fields
    return ObjectKey(
        bytes.fromhex(chunk_hash), model.replace(_SLASH, "/"), int(kv_rank, 16), int(object_group, 16), salt
    )
