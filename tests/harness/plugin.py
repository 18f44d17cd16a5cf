"""Driving an L2 adapter the way LMCache's controllers do: submit, wait for the event fd, fetch the result."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from lmcache.cli.commands.bench.l2_adapter_bench.data import make_memory_objects
from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.internal_api import L2AdapterListener, L2StoreResult
from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.base import L2AdapterInterface
from lmcache.v1.distributed.l2_adapters.config import get_l2_adapter_config_class
from lmcache.v1.memory_management import MemoryObj
from lmcache.v1.platform import consume_fd

PATIENCE_S = 30.0

T = TypeVar("T")


def make_adapter(spec: Mapping[str, Any]) -> L2AdapterInterface:
    """An adapter, from its JSON spec, by LMCache's own registry."""
    config = get_l2_adapter_config_class(spec["type"]).from_dict(dict(spec))
    return create_l2_adapter(config)


def make_keys(count: int, prefix: bytes = b"", salt: str = "") -> list[ObjectKey]:
    """Distinct keys of one prompt."""
    return [
        ObjectKey(prefix + number.to_bytes(16, "big"), "org/model", 0x01000100, 0, salt)
        for number in range(count)
    ]


def make_objects(count: int, size: int, fill: int = 0) -> list[MemoryObj]:
    """Host memory of LMCache's own kind; object ``i`` is filled with the byte ``(i + fill) % 256``."""
    buffer = torch.zeros(count * size, dtype=torch.uint8)
    return list(make_memory_objects(buffer, count, size, 0, fill))


def contents(objects: Sequence[MemoryObj]) -> list[bytes]:
    """The bytes of each object."""
    return [bytes(item.byte_array) for item in objects]


def hits(bitmap: Bitmap) -> list[int]:
    """The positions that are set."""
    return list(bitmap.get_indices_list())


class Driver:
    """Runs one task at a time through an adapter."""

    def __init__(self, adapter: L2AdapterInterface) -> None:
        self.adapter = adapter

    def store(self, keys: Sequence[ObjectKey], objects: Sequence[MemoryObj]) -> L2StoreResult:
        """Stores and waits for the result."""
        task = self.adapter.submit_store_task(list(keys), list(objects))
        found: dict[int, L2StoreResult] = {}

        def fetch() -> L2StoreResult | None:
            found.update(self.adapter.pop_completed_store_tasks())
            return found.get(task)

        return self._wait(self.adapter.get_store_event_fd(), fetch)

    def lookup(self, keys: Sequence[ObjectKey]) -> list[int]:
        """Looks up and locks; the positions that hit."""
        layout = MemoryLayoutDesc(shapes=[], dtypes=[])
        task = self.adapter.submit_lookup_and_lock_task(list(keys), {0: layout})
        return hits(
            self._wait(
                self.adapter.get_lookup_and_lock_event_fd(),
                lambda: self.adapter.query_lookup_and_lock_result(task),
            )
        )

    def load(self, keys: Sequence[ObjectKey], objects: Sequence[MemoryObj]) -> list[int]:
        """Loads; the positions that arrived."""
        task = self.adapter.submit_load_task(list(keys), list(objects))
        return hits(
            self._wait(self.adapter.get_load_event_fd(), lambda: self.adapter.query_load_result(task))
        )

    def _wait(self, event_fd: int, fetch: Callable[[], T | None]) -> T:
        poller = select.poll()
        poller.register(event_fd, select.POLLIN)
        deadline = time.monotonic() + PATIENCE_S
        while (result := fetch()) is None:
            if not poller.poll(1000 * max(0.0, deadline - time.monotonic())):
                raise AssertionError("the event fd was never signalled")
            consume_fd(event_fd)
        return result


class Listener(L2AdapterListener):  # type: ignore[misc]
    """Notes what an adapter tells."""

    def __init__(self) -> None:
        self.stored: list[tuple[ObjectKey, int]] = []
        self.accessed: list[ObjectKey] = []
        self.deleted: list[ObjectKey] = []

    def on_l2_keys_stored(self, keys: list[ObjectKey], sizes: list[int]) -> None:
        """Notes keys with sizes."""
        self.stored += zip(keys, sizes, strict=True)

    def on_l2_keys_accessed(self, keys: list[ObjectKey]) -> None:
        """Notes keys."""
        self.accessed += keys

    def on_l2_keys_deleted(self, keys: list[ObjectKey]) -> None:
        """Notes keys."""
        self.deleted += keys
