"""An LMCache adapter for tests: it really pins what is locked, and keeps calls waiting when told to."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed.api import EncodedObjectKey, KeyEntry, KeyListPage, MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.internal_api import L1MemoryDesc, L2StoreResult
from lmcache.v1.distributed.l2_adapters.base import L2AdapterInterface
from lmcache.v1.memory_management import MemoryObj
from lmcache.v1.platform import create_event_notifier


class UnrulyAdapter(L2AdapterInterface):  # type: ignore[misc]
    """Its ``adapter_params`` may name ``capacity_bytes``.

    Attributes:
        made: the adapters of this process, in order.
        held: kinds of calls ("lookup", "load", "store", "submit", "close") that wait until they are removed.
        locks: locks of each key.
        objects: what it holds.
        healthy: what it says about itself.
    """

    made: ClassVar[list[UnrulyAdapter]] = []

    def __init__(self, params: dict[str, Any], l1_memory_desc: L1MemoryDesc) -> None:
        super().__init__(max_capacity_bytes=params.get("capacity_bytes", 0))
        self.l1_memory_desc = l1_memory_desc
        self.held: set[str] = set()
        self.locks: Counter[ObjectKey] = Counter()
        self.objects: dict[ObjectKey, bytes] = {}
        self.healthy = True
        self._changed = threading.Condition()
        self._notifiers = {kind: create_event_notifier() for kind in ("store", "lookup", "load")}
        self._results: dict[str, dict[int, Any]] = {kind: {} for kind in self._notifiers}
        self._tasks = 0
        self.made.append(self)

    def hold(self, *kinds: str) -> None:
        """Keeps calls of these kinds waiting; of no kinds, lets all go on."""
        with self._changed:
            self.held = set(kinds)
            self._changed.notify_all()

    def get_store_event_fd(self) -> int:
        return self._notifiers["store"].fileno()

    def get_lookup_and_lock_event_fd(self) -> int:
        return self._notifiers["lookup"].fileno()

    def get_load_event_fd(self) -> int:
        return self._notifiers["load"].fileno()

    def submit_store_task(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> int:
        return self._submit("store", lambda: self._store(keys, objects))

    def pop_completed_store_tasks(self) -> dict[int, L2StoreResult]:
        with self._changed:
            completed, self._results["store"] = self._results["store"], {}
        return completed

    def submit_lookup_and_lock_task(
        self, keys: list[ObjectKey], group_layout_descs: dict[int, MemoryLayoutDesc]
    ) -> int:
        return self._submit("lookup", lambda: self._lookup(keys))

    def query_lookup_and_lock_result(self, task_id: int) -> Bitmap | None:
        with self._changed:
            return self._results["lookup"].pop(task_id, None)

    def submit_unlock(self, keys: list[ObjectKey]) -> None:
        with self._changed:
            self.locks.subtract(keys)

    def submit_load_task(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> int:
        return self._submit("load", lambda: self._load(keys, objects))

    def query_load_result(self, task_id: int) -> Bitmap | None:
        with self._changed:
            return self._results["load"].pop(task_id, None)

    def delete(self, keys: list[ObjectKey]) -> None:
        with self._changed:
            deleted = [key for key in keys if key in self.objects and self.locks[key] == 0]
            sizes = [len(self.objects.pop(key)) for key in deleted]
        self._notify_keys_deleted(deleted, sizes)

    def list_l2_keys(
        self, model_name: str | None = None, page_size: int = 500, cursor: str | None = None
    ) -> KeyListPage:
        first = int(cursor or 0)
        keys = sorted(
            (key for key in self.objects if model_name in (None, key.model_name)),
            key=lambda key: key.chunk_hash,
        )
        page = keys[first : first + page_size]
        more = first + page_size < len(keys)
        entries = tuple(KeyEntry(self._encoded(key), len(self.objects[key])) for key in page)
        return KeyListPage(entries, str(first + page_size) if more else None)

    def report_status(self) -> dict[str, Any]:
        return {"is_healthy": self.healthy}

    def close(self) -> None:
        self._wait_while_held("close")
        for notifier in self._notifiers.values():
            notifier.close()

    def total_locks(self) -> int:
        """Locks over all keys; a key that was unlocked too often counts as well."""
        with self._changed:
            return sum(map(abs, self.locks.values()))

    @staticmethod
    def _encoded(key: ObjectKey) -> EncodedObjectKey:
        return key.to_encoded_object_key()

    def _submit(self, kind: str, work: Callable[[], Any]) -> int:
        self._wait_while_held("submit")
        with self._changed:
            self._tasks += 1
            task = self._tasks

        def run() -> None:
            self._wait_while_held(kind)
            result = work()
            with self._changed:
                self._results[kind][task] = result
            self._notifiers[kind].notify()

        threading.Thread(target=run, daemon=True).start()
        return task

    def _wait_while_held(self, kind: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: kind not in self.held)

    def _store(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> L2StoreResult:
        self._check_place(objects)
        for key, obj in zip(keys, objects, strict=True):
            self.objects[key] = bytes(obj.byte_array)
        sizes = [obj.get_size() for obj in objects]
        self._notify_keys_stored(keys, sizes)
        return L2StoreResult(True, sum(sizes))

    def _lookup(self, keys: list[ObjectKey]) -> Bitmap:
        found = Bitmap(len(keys))
        with self._changed:
            for position, key in enumerate(keys):
                if key in self.objects:
                    found.set(position)
                    self.locks[key] += 1
        return found

    def _load(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> Bitmap:
        self._check_place(objects)
        loaded = Bitmap(len(keys))
        for position, (key, obj) in enumerate(zip(keys, objects, strict=True)):
            if key in self.objects:
                obj.byte_array[:] = self.objects[key]
                loaded.set(position)
        return loaded

    def _check_place(self, objects: list[MemoryObj]) -> None:
        """As an adapter would that has registered the memory: it knows no other, and goes by offsets."""
        for obj in objects:
            offset = obj.meta.address
            if obj.data_ptr != self.l1_memory_desc.ptr + offset or offset % self.l1_memory_desc.align_bytes:
                raise ValueError("an object is not where the registered memory has it")
            if offset + obj.get_physical_size() > self.l1_memory_desc.size:
                raise ValueError("an object is beyond the registered memory")
