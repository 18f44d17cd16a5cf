"""The sidecar as a store of chunks: no method raises, whatever is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from kvchaos.client import L2Client
from kvchaos.errors import InvalidKeyError, SidecarError
from kvchaos.keys import MAX_BATCH_KEYS, ObjectKey
from kvchaos_blend.l2 import L2Store

KEY = ObjectKey(b"h", "m", 1)

CALLS: dict[str, Callable[[L2Store, list[ObjectKey]], Future[object]]] = {
    "lookup_and_lock": lambda store, keys: store.lookup_and_lock(keys),  # type: ignore[dict-item]
    "load": lambda store, keys: store.load(keys, buffers(keys), lambda *_: None),  # type: ignore[dict-item]
    "store": lambda store, keys: store.store(keys, buffers(keys)),  # type: ignore[dict-item]
    "delete": lambda store, keys: store.delete(keys),  # type: ignore[dict-item]
    "unlock": lambda store, keys: store.unlock(keys),  # type: ignore[dict-item]
}


def buffers(keys: list[ObjectKey]) -> list[memoryview]:
    return [memoryview(bytearray(1)) for _ in keys]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[L2Store]:
    """A store behind a daemon that is not there."""
    with L2Client(f"unix:{tmp_path}/no.sock", "test", timeout_s=1.0) as client:
        yield L2Store(client)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_daemon_that_is_not_there_ends_the_future(
    store: L2Store, call: Callable[[L2Store, list[ObjectKey]], Future[object]]
) -> None:
    assert isinstance(call(store, [KEY]).exception(timeout=30), SidecarError)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_batch_over_the_limit_ends_the_future(
    store: L2Store, call: Callable[[L2Store, list[ObjectKey]], Future[object]]
) -> None:
    too_many = [KEY] * (MAX_BATCH_KEYS + 1)
    assert isinstance(call(store, too_many).exception(timeout=30), InvalidKeyError)
