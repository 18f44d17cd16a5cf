"""An adapter of LMCache behind an asyncio interface."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from lmcache.v1.distributed.api import KeyListPage
from lmcache.v1.distributed.api import ObjectKey as LMCacheKey
from lmcache.v1.distributed.internal_api import L2StoreResult
from lmcache.v1.distributed.storage_controllers.eviction_controller import L2EvictionController

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.backends.contract import Usage
from kvchaos_sidecar.backends.lmcache.memory import HostObject
from kvchaos_sidecar.backends.lmcache.tasks import AdapterThread, TaskFamily

_log = logging.getLogger(__name__)


class HostedAdapter:
    """The calls that LMCache's controllers make, from two threads as there; the rest from two more.

    Nothing here has a time limit: an adapter that never answers leaves a call waiting. Every method raises
    what the adapter raises.
    """

    def __init__(self, adapter: Any) -> None:
        """``adapter``: an L2AdapterInterface. Only in a running loop."""
        self._adapter = adapter
        self._store_thread = AdapterThread("kvchaos-lmcache-store")
        self._read_thread = AdapterThread("kvchaos-lmcache-read")
        self._delete_thread = AdapterThread("kvchaos-lmcache-delete")
        self._status_thread = AdapterThread("kvchaos-lmcache-status")
        self._stores: TaskFamily[L2StoreResult] = TaskFamily(
            self._store_thread,
            adapter.get_store_event_fd(),
            lambda _pending: adapter.pop_completed_store_tasks(),
        )
        self._lookups: TaskFamily[Any] = TaskFamily(
            self._read_thread,
            adapter.get_lookup_and_lock_event_fd(),
            partial(_completed, adapter.query_lookup_and_lock_result),
        )
        self._loads: TaskFamily[Any] = TaskFamily(
            self._read_thread, adapter.get_load_event_fd(), partial(_completed, adapter.query_load_result)
        )

    async def lookup_and_lock(self, keys: Sequence[ObjectKey]) -> list[bool]:
        """Which keys are there. Each of those is locked once."""
        theirs = to_lmcache(keys)
        found = await self._lookups.run(lambda: self._adapter.submit_lookup_and_lock_task(theirs, {}))
        return [found.test(position) for position in range(len(keys))]

    async def unlock(self, keys: Sequence[ObjectKey]) -> None:
        """Takes one lock from each key."""
        await self._read_thread.call(lambda: self._adapter.submit_unlock(to_lmcache(keys)))

    def unlock_soon(self, keys: Sequence[ObjectKey]) -> None:
        """As :meth:`unlock`, beside the traffic."""
        self._read_thread.post(lambda: self._adapter.submit_unlock(to_lmcache(keys)))

    async def load(self, keys: Sequence[ObjectKey], objects: Sequence[HostObject]) -> list[bool]:
        """Which keys were read whole into their memory."""
        theirs = to_lmcache(keys)
        loaded = await self._loads.run(lambda: self._adapter.submit_load_task(theirs, list(objects)))
        return [loaded.test(position) for position in range(len(keys))]

    async def store(self, keys: Sequence[ObjectKey], objects: Sequence[HostObject]) -> L2StoreResult:
        """Whether the task succeeded, and how many bytes it says it has written."""
        theirs = to_lmcache(keys)
        return await self._stores.run(lambda: self._adapter.submit_store_task(theirs, list(objects)))

    async def delete(self, keys: Sequence[ObjectKey]) -> None:
        """Deletes what is there. An adapter that cannot does nothing."""
        await self._delete_thread.call(lambda: self._adapter.delete(to_lmcache(keys)))

    async def list_keys(self, model_name: str, page_size: int, cursor: str) -> KeyListPage:
        """One page of the keys. Raises NotImplementedError when the adapter cannot list."""
        return await self._delete_thread.call(
            lambda: self._adapter.list_l2_keys(model_name or None, page_size, cursor or None)
        )

    async def usage(self) -> Usage:
        """What the adapter says it holds."""
        usage = await self._status_thread.call(self._adapter.get_usage)
        return Usage(usage.total_bytes_used, usage.total_capacity_bytes, dict(usage.bytes_by_cache_salt))

    async def status(self) -> Mapping[str, Any]:
        """What the adapter says about itself."""
        status: Mapping[str, Any] = await self._status_thread.call(self._adapter.report_status)
        return status

    def on_deleted(self, forget: Callable[[ObjectKey], None]) -> None:
        """Has ``forget`` called, in any thread, for each key that the adapter deletes, by whatever cause."""
        self._adapter.register_listener(_DeletionListener(forget))

    async def close(self, eviction: L2EvictionController | None = None) -> None:
        """Stops the eviction, then closes the adapter. Tasks that have not completed never will."""
        if eviction is not None:
            await self._delete_thread.call(eviction.stop)
        for family in (self._stores, self._lookups, self._loads):
            family.stop()
        await self._delete_thread.call(self._adapter.close)
        for thread in (self._store_thread, self._read_thread, self._delete_thread, self._status_thread):
            thread.stop()


class _DeletionListener:
    """What an adapter calls of LMCache's L2AdapterListener."""

    def __init__(self, forget: Callable[[ObjectKey], None]) -> None:
        self._forget = forget

    def on_l2_keys_stored(self, keys: Sequence[LMCacheKey], sizes: Sequence[int]) -> None:
        """The backend knows what it has stored."""

    def on_l2_keys_accessed(self, keys: Sequence[LMCacheKey]) -> None:
        """Of interest only to eviction, which listens itself."""

    def on_l2_keys_deleted(self, keys: Sequence[LMCacheKey]) -> None:
        for key in keys:
            self._forget(from_lmcache(key))


def to_lmcache(keys: Sequence[ObjectKey]) -> list[LMCacheKey]:
    """The keys as LMCache has them."""
    return [LMCacheKey(*key) for key in keys]


def from_lmcache(key: LMCacheKey) -> ObjectKey:
    """A key of LMCache's as ours."""
    return ObjectKey(key.chunk_hash, key.model_name, key.kv_rank, key.object_group_id, key.cache_salt)


def _completed(query: Callable[[int], Any], pending: Collection[int]) -> dict[int, Any]:
    results = {task_id: query(task_id) for task_id in list(pending)}
    return {task_id: result for task_id, result in results.items() if result is not None}
