"""Keys for ``explain``: from a JSON file, or made up."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from kvchaos.errors import ConfigError, InvalidKeyError
from kvchaos.keys import MAX_BATCH_KEYS, ObjectKey, check_key

FIELDS = {"chunk_hash": str, "model_name": str, "kv_rank": int, "object_group_id": int, "cache_salt": str}
REQUIRED = ("chunk_hash", "model_name", "kv_rank")
_SURROGATES = frozenset(range(0xD800, 0xE000))


def read_keys(name: str) -> list[ObjectKey]:
    """The keys in a JSON file (``-``: the standard input): a list of objects with the fields of a key.

    Raises:
        ConfigError: it cannot be read, or a key is wrong; names the file and the place.
    """
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        entries = json.loads(text)
    except OSError as error:
        raise ConfigError([f"cannot be read: {error.strerror}"], name) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"not JSON: {error}"], name) from None
    if not isinstance(entries, list):
        raise ConfigError(['expected a list such as [{"chunk_hash": "00ff", ...}]'], name)
    if len(entries) > MAX_BATCH_KEYS:
        raise ConfigError([f"{len(entries)} keys are over the limit of {MAX_BATCH_KEYS} of one batch"], name)
    return [_key(entry, f"[{position}]", name) for position, entry in enumerate(entries)]


def synthetic_keys(count: int) -> list[ObjectKey]:
    """``count`` keys of one prompt that nobody stored, always the same."""
    return [ObjectKey(sha256(b"chunk %d" % number).digest(), "model", 0) for number in range(count)]


def _key(entry: Any, place: str, source: str) -> ObjectKey:
    problems = _problems(entry, place)
    if problems:
        raise ConfigError(problems, source)
    try:
        key = ObjectKey(**{**entry, "chunk_hash": bytes.fromhex(entry["chunk_hash"])})
        check_key(key)
    except InvalidKeyError as error:
        raise ConfigError([f"{place}: {error}"], source) from None
    except ValueError:
        raise ConfigError(
            [f"{place}.chunk_hash: {entry['chunk_hash']!r} is not hexadecimal"], source
        ) from None
    return key


def _problems(entry: Any, place: str) -> Sequence[str]:
    if not isinstance(entry, dict):
        return [f"{place}: expected an object with {', '.join(FIELDS)}"]
    missing = [f"{place}.{name}: missing" for name in REQUIRED if name not in entry]
    unknown = [
        f"{place}.{name}: unknown; known are {', '.join(FIELDS)}" for name in entry if name not in FIELDS
    ]
    wrong = [
        f"{place}.{name}: {reason}"
        for name, kind in FIELDS.items()
        if name in entry and (reason := _reason_against(entry[name], kind))
    ]
    return [*missing, *unknown, *wrong]


def _reason_against(value: Any, kind: type) -> str | None:
    if type(value) is not kind:
        return f"{json.dumps(value)} is not {'text' if kind is str else 'an integer'}"
    if isinstance(value, str) and not _SURROGATES.isdisjoint(map(ord, value)):
        return "it is not valid Unicode text"
    return None
