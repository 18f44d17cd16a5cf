"""Listing the objects in a Redis database page by page, past the keys of others."""

from __future__ import annotations

import re
from collections.abc import Sequence

import redis

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.backends.contract import KeyPage
from kvchaos_sidecar.backends.redis_client import RedisClient
from kvchaos_sidecar.backends.redis_errors import failed_call
from kvchaos_sidecar.backends.resp_keys import from_redis_key, pattern_for

_CURSOR = re.compile(r"(?P<scan>\d{1,20})(?::(?P<after>(?:[0-9a-f]{2})+))?", re.ASCII)
_LEAST_KEYS_PER_SCAN, _MOST_KEYS_PER_SCAN = 100, 1000
_SCANS_PER_PAGE = 1000


def list_page(client: RedisClient, model_name: str, page_size: int, cursor: str) -> KeyPage:
    """One page. It may hold fewer keys than it could, even none, and not be the last.

    A cursor is one of SCAN and, when a page ended within what that scan found, the last name it held.

    Raises:
        BackendError: the server does not answer.
        ValueError: the cursor is malformed.
    """
    scan, after = parse_cursor(cursor)
    entries: list[tuple[ObjectKey, int]] = []
    for _ in range(_SCANS_PER_PAGE):
        following, found = _scan(client, scan, model_name, page_size)
        names = [name for name in found if name > after]
        room = page_size - len(entries)
        entries += _with_sizes(client, names[:room])
        if len(names) > room:
            return KeyPage(entries, f"{scan}:{names[room - 1].hex()}")
        if following == 0:
            return KeyPage(entries, "")
        scan, after = following, b""
        if len(entries) == page_size:
            break
    return KeyPage(entries, str(scan))


def parse_cursor(cursor: str) -> tuple[int, bytes]:
    """SCAN's cursor, and the name to go on after. Raises ValueError when ``cursor`` is malformed."""
    if not cursor:
        return 0, b""
    match = _CURSOR.fullmatch(cursor)
    if match is None or int(match["scan"]) >= 1 << 64:
        raise ValueError(f"cursor {cursor!r} is not one that a listing returned; start with an empty one")
    return int(match["scan"]), bytes.fromhex(match["after"] or "")


def _scan(client: RedisClient, scan: int, model_name: str, page_size: int) -> tuple[int, list[bytes]]:
    """SCAN's next cursor, and the names of objects among what it found, in order."""
    count = min(max(page_size, _LEAST_KEYS_PER_SCAN), _MOST_KEYS_PER_SCAN)
    try:
        (answer,) = client.call([("SCAN", scan, "MATCH", pattern_for(model_name), "COUNT", count)])
        if isinstance(answer, redis.RedisError):
            raise answer
    except redis.RedisError as error:
        raise failed_call(client.address, error) from error
    following, found = answer
    return int(following), sorted(name for name in set(found) if _is_of(model_name, name))


def _is_of(model_name: str, name: bytes) -> bool:
    key = from_redis_key(name)
    return key is not None and model_name in ("", key.model_name)


def _with_sizes(client: RedisClient, names: Sequence[bytes]) -> list[tuple[ObjectKey, int]]:
    """The keys that are still there and are objects, with their sizes in bytes."""
    try:
        sizes = client.call([("STRLEN", name) for name in names])
    except redis.RedisError as error:
        raise failed_call(client.address, error) from error
    keys = map(from_redis_key, names)
    return [
        (key, size)
        for key, size in zip(keys, sizes, strict=True)
        if key is not None and isinstance(size, int) and size > 0
    ]
