"""The L2 adapter that LMCache calls. It never raises into the cache server and never makes it wait long."""

from __future__ import annotations

import itertools
import os
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from lmcache.lmcache_native import Bitmap
from lmcache.logging import init_logger
from lmcache.v1.distributed.api import KeyEntry, KeyListPage, MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.internal_api import L2StoreResult
from lmcache.v1.distributed.l2_adapters.base import AdapterUsage, L2AdapterInterface
from lmcache.v1.memory_management import MemoryObj

from kvchaos.backoff import Backoff
from kvchaos.client import L2Client
from kvchaos.completion import AS_EVER, Completion
from kvchaos.errors import KVChaosError, OperationUnsupported, RequestRefused
from kvchaos.keys import MAX_BATCH_KEYS
from kvchaos.lmcache.config import KVChaosL2AdapterConfig
from kvchaos.lmcache.connection_log import ConnectionLog
from kvchaos.lmcache.delivery import Delivery
from kvchaos.lmcache.results_board import ResultsBoard
from kvchaos.lmcache.trouble import TroubleLog
from kvchaos.lmcache.unlocker import Unlocker
from kvchaos.lmcache.usage_probe import UsageProbe
from kvchaos.results import Result
from kvchaos.session import Session

logger = init_logger(__name__)

CLOSE_TIMEOUT_S = 5.0
DELETE_BATCH_KEYS = 1_000
"""Small, so that what was deleted is told to the listeners even when time runs out before the rest."""


class KVChaosL2Adapter(L2AdapterInterface):  # type: ignore[misc]  # lmcache carries no types
    """LMCache's view of a sidecar.

    While the sidecar cannot be reached, lookups miss, loads and stores fail, at once; it is connected again
    as soon as it is back. A sidecar that is there and does not answer costs each task at most ``timeout_s``.

    Args:
        config: the settings.
        l1_memory_desc: LMCache's host memory. Not needed: buffers come with each task.

    Raises:
        ConfigError: the target, the TLS files or the token file cannot be used.
    """

    def __init__(self, config: KVChaosL2AdapterConfig, l1_memory_desc: object | None = None) -> None:
        super().__init__(max_capacity_bytes=config.max_capacity_bytes)
        self._config = config
        self._task_ids = itertools.count()
        self._stores: ResultsBoard[L2StoreResult] = ResultsBoard()
        self._lookups: ResultsBoard[Bitmap] = ResultsBoard()
        self._loads: ResultsBoard[Bitmap] = ResultsBoard()
        self._loads_out = Delivery(self._loads)
        self._trouble = TroubleLog(logger)
        self._client = L2Client(
            config.target,
            f"lmcache@{socket.gethostname()[:64]}:{os.getpid()}",
            token=config.read_token(),
            tls=config.tls_settings,
            handoff=config.handoff,
            workers=config.workers,
            timeout_s=config.timeout_s,
            listener=ConnectionLog(config.target, logger, self._take_capacity, self._loads_out.release),
        )
        jitter = random.Random()  # noqa: S311 (not a secret)
        self._unlocker = Unlocker(self._client, Backoff(), jitter)
        self._usage = UsageProbe(self._client, time.monotonic)
        self._client.wait_connected()

    # Event fds

    def get_store_event_fd(self) -> int:
        """Signalled when stores are done."""
        return self._stores.event_fd

    def get_lookup_and_lock_event_fd(self) -> int:
        """Signalled when lookups are done."""
        return self._lookups.event_fd

    def get_load_event_fd(self) -> int:
        """Signalled when loads are done."""
        return self._loads.event_fd

    # Store

    def submit_store_task(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> int:
        """Stores each object under its key; one that is there already counts as stored."""
        task_id = next(self._task_ids)
        sizes: list[int] = []

        def start() -> Future[list[Result]]:
            buffers = [memoryview(item.byte_array) for item in objects]
            sizes.extend(buffer.nbytes for buffer in buffers)
            return self._client.store(keys, buffers)

        self._run("store", keys, objects, start, lambda results: self._stored(task_id, keys, sizes, results))
        return task_id

    def pop_completed_store_tasks(self) -> dict[int, L2StoreResult]:
        """The stores that are done, each once: whether all keys are stored, and bytes newly written."""
        return self._stores.take_all()

    # Lookup

    def submit_lookup_and_lock_task(
        self, keys: list[ObjectKey], group_layout_descs: Mapping[int, MemoryLayoutDesc]
    ) -> int:
        """Looks the keys up and locks those that are present."""
        task_id = next(self._task_ids)
        self._run(
            "lookup",
            keys,
            (),
            lambda: self._client.lookup_and_lock(keys),
            lambda results: self._lookups.post(task_id, _bitmap(results)),
        )
        return task_id

    def query_lookup_and_lock_result(self, task_id: int) -> Bitmap | None:
        """Which keys are present, once; None until the lookup is done."""
        return self._lookups.take(task_id)

    def submit_unlock(self, keys: list[ObjectKey]) -> None:
        """Has the keys unlocked in the background; retried until it is done."""
        self._unlocker.submit(list(keys))

    # Load

    def submit_load_task(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> int:
        """Loads each key into its object. Once the task is done, nothing writes to the objects any more."""
        task_id = next(self._task_ids)
        wanted = [AS_EVER]

        def start() -> Future[list[Result]]:
            buffers = [memoryview(item.byte_array) for item in objects]
            return self._client.load(keys, buffers, on_completion=wanted.append)

        self._run(
            "load", keys, objects, start, lambda results: self._loaded(task_id, keys, results, wanted[-1])
        )
        return task_id

    def query_load_result(self, task_id: int) -> Bitmap | None:
        """Which keys were loaded, once; None until the load is done."""
        return self._loads.take(task_id)

    # Eviction, listing, usage

    def delete(self, keys: list[ObjectKey]) -> None:
        """Deletes the keys and tells the listeners which were there. Waits at most ``timeout_s``."""
        deadline = time.monotonic() + self._config.timeout_s
        for start in range(0, len(keys), DELETE_BATCH_KEYS):
            batch = keys[start : start + DELETE_BATCH_KEYS]
            try:
                deleted = self._client.delete(batch, max(0.0, deadline - time.monotonic())).result()
            except (KVChaosError, ValueError) as error:
                self._trouble.failed("delete", batch, error)
                return
            self._trouble.answered("delete", batch, [entry.result for entry in deleted])
            freed = [
                (key, entry.freed_bytes)
                for key, entry in zip(batch, deleted, strict=True)
                if entry.result is Result.OK
            ]
            if freed:
                self._tell(self._notify_keys_deleted, *map(list, zip(*freed, strict=True)))

    def list_l2_keys(
        self, model_name: str | None = None, page_size: int = 500, cursor: str | None = None
    ) -> KeyListPage:
        """One page of the keys in the store.

        Raises:
            ValueError: the page size is not positive, or the cursor is malformed.
            NotImplementedError: the store behind the sidecar cannot list.
            RuntimeError: the sidecar cannot be reached or did not answer in time.
        """
        if page_size < 1:
            raise ValueError(f"page_size must be positive, got {page_size}")
        page_size = min(page_size, MAX_BATCH_KEYS)
        try:
            page = self._client.list_keys(model_name or "", page_size, cursor or "").result()
        except OperationUnsupported as error:
            raise NotImplementedError(str(error)) from error
        except RequestRefused as error:
            raise ValueError(str(error)) from error
        except KVChaosError as error:
            raise RuntimeError(f"the sidecar cannot list keys now: {error}") from error
        entries = tuple(
            KeyEntry(key=ObjectKey(*key).to_encoded_object_key(), size_bytes=size)
            for key, size in page.entries
        )
        return KeyListPage(entries=entries, next_page_token=page.next_cursor or None)

    def get_usage(self) -> AdapterUsage:
        """What the sidecar's store holds, or held when it was last heard of. Waits 0.25 s at most."""
        usage = self._usage.latest()
        if usage is None:
            return super().get_usage()
        return AdapterUsage(
            total_bytes_used=usage.total_bytes,
            total_capacity_bytes=self._config.max_capacity_bytes or usage.capacity_bytes,
            bytes_by_cache_salt=usage.bytes_by_cache_salt,
        )

    # Status and end

    def report_status(self) -> dict[str, Any]:
        """The state of the connection and the faults in force. Asks nobody, so it does not wait."""
        facts, faults = self._client.facts, self._client.faults
        connected = self._client.connected
        return {
            "is_healthy": connected,
            "type": type(self).__name__,
            "target": self._config.target,
            "session": facts.short_id if facts and connected else None,
            "connection_attempts": self._client.connection_attempts,
            "sessions_opened": self._client.sessions_opened,
            "reconnects": max(0, self._client.sessions_opened - 1),
            "last_error": None if connected else str(self._client.cause),
            "transport": str(facts.transport) if facts else None,
            "transport_reason": facts.transport_reason if facts else None,
            "backend": facts.backend if facts else None,
            "daemon_version": facts.daemon_version if facts else None,
            "pending_unlocks": self._unlocker.pending_keys,
            "failed_keys": self._trouble.counts,
            "fault_inject": None
            if faults is None
            else {
                "rate": faults.rate,
                "seed": faults.seed,
                "gap_indices": sorted(faults.gap_indices),
                "gap_tail_ratios": list(faults.gap_tail_ratios),
                "generation": faults.generation,
                "halted": faults.halted,
                "rules": list(faults.rules),
            },
        }

    def close(self) -> None:
        """Ends the session and closes the event fds. Bounded, also when the sidecar hangs. Idempotent."""
        self._client.close(CLOSE_TIMEOUT_S)
        self._unlocker.close(CLOSE_TIMEOUT_S)
        self._loads_out.release()
        for board in (self._stores, self._lookups, self._loads):
            board.close()

    # Inside

    def _run(
        self,
        operation: str,
        keys: Sequence[ObjectKey],
        objects: Sequence[MemoryObj],
        start: Callable[[], Future[list[Result]]],
        finish: Callable[[Sequence[Result]], None],
    ) -> None:
        """Starts a task, and has it finished however it ends."""
        try:
            future = start()
        except Exception as error:  # whatever a key or a buffer can do wrong must not reach the cache server
            self._trouble.failed(operation, keys, error)
            finish([Result.INVALID] * len(keys))
        else:
            future.add_done_callback(partial(self._ended, operation, keys, objects, finish))

    def _ended(
        self,
        operation: str,
        keys: Sequence[ObjectKey],
        _held: Sequence[MemoryObj],
        finish: Callable[[Sequence[Result]], None],
        future: Future[list[Result]],
    ) -> None:
        """Finishes a task. ``_held`` is only there so that its memory lives as long as the task."""
        error = future.exception()
        if error is None:
            self._trouble.answered(operation, keys, future.result())
            finish(future.result())
        else:
            self._trouble.failed(operation, keys, error)
            finish([Result.UNAVAILABLE] * len(keys))

    def _stored(
        self, task_id: int, keys: Sequence[ObjectKey], sizes: Sequence[int], results: Sequence[Result]
    ) -> None:
        new = [place for place, result in enumerate(results) if result is Result.OK]
        new_sizes = [sizes[place] for place in new]
        if new:
            self._tell(self._notify_keys_stored, [keys[place] for place in new], new_sizes)
        stored = all(result in (Result.OK, Result.PRESENT) for result in results)
        self._stores.post(task_id, L2StoreResult(stored, sum(new_sizes)))

    def _loaded(
        self, task_id: int, keys: Sequence[ObjectKey], results: Sequence[Result], wanted: Completion
    ) -> None:
        loaded = [key for key, result in zip(keys, results, strict=True) if result is Result.OK]
        if loaded:
            self._tell(self._notify_keys_accessed, loaded)
        self._loads_out.deliver(task_id, _bitmap(results), wanted)

    def _tell(self, notify: Callable[..., None], *arguments: Any) -> None:
        try:
            notify(*arguments)
        except Exception:
            logger.exception("kvchaos: a listener failed")

    def _take_capacity(self, session: Session) -> None:
        if not self._config.max_capacity_bytes:
            self._max_capacity_bytes = session.facts.capacity_bytes


def _bitmap(results: Sequence[Result]) -> Bitmap:
    bitmap = Bitmap(len(results))
    bitmap.batched_set([place for place, result in enumerate(results) if result is Result.OK])
    return bitmap
