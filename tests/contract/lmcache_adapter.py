"""An LMCache L2 adapter driven in this process: the reference for what is on disk or in Redis."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
os.environ.setdefault("LMCACHE_DISABLE_BANNER", "1")

import torch
from lmcache.v1.distributed.api import ObjectKey as LMCacheKey
from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.config import get_l2_adapter_config_class
from lmcache.v1.memory_management import MemoryFormat, MemoryObj, MemoryObjMetadata, TensorMemoryObj

from kvchaos.keys import ObjectKey

T = TypeVar("T")

PATIENCE_S = 30.0


class LMCacheAdapter:
    """One adapter, made from its JSON spec; each call submits one task and waits for it."""

    def __init__(self, spec: Mapping[str, object]) -> None:
        config_class = get_l2_adapter_config_class(str(spec["type"]))
        self._adapter = create_l2_adapter(config_class.from_dict(dict(spec)))

    def store(self, objects: Mapping[ObjectKey, bytes]) -> bool:
        """Whether all of the objects were stored."""
        buffers = [_memory(data) for data in objects.values()]  # the adapter does not keep them alive
        task = self._adapter.submit_store_task([_key(key) for key in objects], buffers)
        done: dict[int, Any] = {}

        def result() -> Any:
            done.update(self._adapter.pop_completed_store_tasks())
            return done.get(task)

        outcome = _wait(self._adapter.get_store_event_fd(), result)
        del buffers
        return bool(outcome.is_successful())

    def contains(self, keys: Sequence[ObjectKey]) -> list[bool]:
        """Whether each key is found; the locks are taken back."""
        mine = [_key(key) for key in keys]
        task = self._adapter.submit_lookup_and_lock_task(mine, {})
        found = _wait(
            self._adapter.get_lookup_and_lock_event_fd(),
            lambda: self._adapter.query_lookup_and_lock_result(task),
        )
        self._adapter.submit_unlock(mine)
        return [bool(found.test(i)) for i in range(len(keys))]

    def load(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[bytes | None]:
        """The bytes of each object, None where the load failed."""
        buffers = [_memory(bytes(size)) for size in sizes]
        task = self._adapter.submit_load_task([_key(key) for key in keys], buffers)
        loaded = _wait(self._adapter.get_load_event_fd(), lambda: self._adapter.query_load_result(task))
        return [bytes(buffer.byte_array) if loaded.test(i) else None for i, buffer in enumerate(buffers)]

    def delete(self, keys: Sequence[ObjectKey]) -> None:
        """Deletes the objects and waits for it."""
        self._adapter.delete([_key(key) for key in keys])

    def usage(self) -> Any:
        """The adapter's own AdapterUsage."""
        return self._adapter.get_usage()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._adapter.close()


def _key(key: ObjectKey) -> LMCacheKey:
    return LMCacheKey(*key)


def _memory(data: bytes) -> MemoryObj:
    metadata = MemoryObjMetadata(
        shape=torch.Size([len(data)]),
        dtype=torch.uint8,
        address=0,
        phy_size=len(data),
        fmt=MemoryFormat.KV_2LTD,
        ref_count=1,
    )
    raw = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return TensorMemoryObj(raw_data=raw, metadata=metadata, parent_allocator=None)


def _wait(event_descriptor: int, result: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while (value := result()) is None:
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0 or not select.select([event_descriptor], [], [], remaining_s)[0]:
            raise TimeoutError(f"the adapter did not answer within {PATIENCE_S} s")
        os.read(event_descriptor, 8)
    return value
