"""Any adapter that is registered in an installed LMCache, behind the proxy.

It is configured by its own spec, verbatim, and gets the calls that LMCache's storage manager would make, in
their order: nothing is loaded that a lookup has not found, and every lock is given back once. What the
manager does around an adapter is done here as well (eviction), or refused (see spec.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from lmcache.v1.distributed.storage_controllers.eviction_controller import L2EvictionController

from kvchaos.keys import ObjectKey
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import (
    Backend,
    BackendError,
    KeyPage,
    ListingUnsupported,
    ReadLease,
    Usage,
    WriteLease,
)
from kvchaos_sidecar.backends.lmcache.adapter import HostedAdapter, from_lmcache
from kvchaos_sidecar.backends.lmcache.bounded import BoundedCalls
from kvchaos_sidecar.backends.lmcache.hosting import make_hosted
from kvchaos_sidecar.backends.lmcache.spec import PLACE, parse_spec
from kvchaos_sidecar.backends.lmcache.tasks import AdapterThread
from kvchaos_sidecar.backends.lmcache.transfers import Transfers
from kvchaos_sidecar.backends.staging import StagedObject, StagedRead, StagedWrite, StagingArea

DEFAULT_TIMEOUT_S = 30.0
START_TIMEOUT_S = 60.0
DEFAULT_CLOSE_TIMEOUT_S = 5.0
_NOBODYS_KEY = ObjectKey(b"kvchaos", "kvchaos", 0)
"""Looked up at the start: several adapters find out only then that their store is not there."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Running:
    adapter: HostedAdapter
    transfers: Transfers
    eviction: L2EvictionController | None


class LMCacheBackend(Backend):
    """One adapter, hosted.

    Adapters do not tell the size of an object. Where it was not stored through this process, a load of
    another size ends as the adapter ends it.
    """

    type_name = "lmcache"

    def __init__(
        self,
        inner: Mapping[str, Any],
        staging: StagingArea,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        close_timeout_s: float = DEFAULT_CLOSE_TIMEOUT_S,
    ) -> None:
        """
        Args:
            inner: the adapter's spec, as ``--l2-adapter`` of LMCache takes it.
            staging: memory for objects on their way; the backend closes it.
            timeout_s: how long a call may take, in seconds.
            close_timeout_s: how long its last calls may take when it is closed, and then its closing.

        Raises:
            ConfigError: the spec is wrong, or asks for what only the cache server can do.
        """
        self._spec = parse_spec(inner)
        self.description = f"LMCache's {self._spec.type_name} adapter"
        self._staging = staging
        self._calls = BoundedCalls(self.description, timeout_s)
        self._close_timeout_s = close_timeout_s
        self._locks: Counter[ObjectKey] = Counter()
        self._sizes: dict[ObjectKey, int] = {}
        self._made: _Running | None = None

    @property
    def _running(self) -> _Running:
        if self._made is None:
            raise BackendError("the backend has not been started, or has been closed")
        return self._made

    async def start(self) -> None:
        thread = AdapterThread("kvchaos-lmcache-start")
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                hosted = await thread.call(partial(make_hosted, self._spec, self._staging.budget_bytes))
        except TimeoutError as error:
            late = f"{PLACE}: {self.description} was not ready within {START_TIMEOUT_S:g} s"
            raise BackendError(late) from error
        finally:
            thread.stop()
        adapter = HostedAdapter(hosted.adapter)
        adapter.on_deleted(self._forget_size)
        self._made = _Running(adapter, Transfers(adapter, hosted.memory), hosted.eviction)
        if hosted.eviction is not None:
            hosted.eviction.start()
        try:
            self.capacity_bytes = (await self.usage()).capacity_bytes
            await self.contains([_NOBODYS_KEY])
        except BackendError as error:
            await self.close()
            raise BackendError(f"{PLACE}: {error}") from error

    async def close(self) -> None:
        running, self._made = self._made, None
        if running is None:
            return
        await self._calls.close(self._close_timeout_s)
        try:
            async with asyncio.timeout(self._close_timeout_s):
                await running.adapter.close(running.eviction)
        except Exception as error:
            _log.warning("%s did not close: %r", self.description, error)
        running.transfers.close()
        self._staging.close()

    async def probe(self) -> None:
        status = await self._calls.run(self._running.adapter.status())
        if not status.get("is_healthy"):
            raise BackendError(f"{self.description} says that it is not healthy: {dict(status)}")

    async def contains(self, keys: Sequence[ObjectKey]) -> list[bool]:
        return await self._calls.run(self._running.transfers.present(keys))

    async def lock(self, keys: Sequence[ObjectKey]) -> list[bool]:
        if not keys:
            return []
        adapter = self._running.adapter
        found = await self._calls.run(
            adapter.lookup_and_lock(keys), lambda found: adapter.unlock_soon(_where(found, keys))
        )
        self._locks.update(_where(found, keys))
        return found

    async def unlock(self, keys: Sequence[ObjectKey]) -> None:
        for key in keys:
            self._locks[key] -= 1
            if self._locks[key] <= 0:
                del self._locks[key]
        if self._made is not None:
            self._made.adapter.unlock_soon(keys)

    async def open_reads(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[ReadLease | Result]:
        found = await self._locked_or_found(keys)
        refusals = [
            self._read_refusal(key, size, there) for key, size, there in zip(keys, sizes, found, strict=True)
        ]
        asked = [position for position, refusal in enumerate(refusals) if refusal is None]
        loaded = iter(await self._load([keys[i] for i in asked], [sizes[i] for i in asked]))
        return [next(loaded) if refusal is None else refusal for refusal in refusals]

    async def open_writes(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[WriteLease | Result]:
        present = await self.contains(keys)
        absent = [position for position, there in enumerate(present) if not there]
        staged = iter(await self._staging.open_writes([keys[i] for i in absent], [sizes[i] for i in absent]))
        return [Result.PRESENT if there else next(staged) for there in present]

    async def publish(self, leases: Sequence[WriteLease], written: Sequence[int]) -> list[Result]:
        transfers = self._running.transfers
        taken = [lease.take() for lease in cast("Sequence[StagedWrite]", leases)]
        return await self._calls.run(self._publish(transfers, taken, written))

    def discard(self, leases: Sequence[WriteLease]) -> None:
        for lease in cast("Sequence[StagedWrite]", leases):
            lease.discard()

    async def delete(self, keys: Sequence[ObjectKey]) -> list[int | Result]:
        return await self._calls.run(self._delete(keys))

    async def list_keys(self, model_name: str, page_size: int, cursor: str) -> KeyPage:
        return await self._calls.run(self._list(model_name, page_size, cursor))

    async def usage(self) -> Usage:
        return await self._calls.run(self._running.adapter.usage())

    async def _locked_or_found(self, keys: Sequence[ObjectKey]) -> list[bool]:
        unlocked = [key for key in keys if key not in self._locks]
        found = iter(await self.contains(unlocked))
        return [key in self._locks or next(found) for key in keys]

    def _read_refusal(self, key: ObjectKey, size: int, found: bool) -> Result | None:
        if not found:
            return Result.NOT_FOUND
        return None if self._sizes.get(key, size) == size else Result.SIZE_MISMATCH

    async def _load(self, keys: Sequence[ObjectKey], sizes: Sequence[int]) -> list[ReadLease | Result]:
        staged = await self._staging.open_reads(sizes)
        leases = [lease for lease in staged if isinstance(lease, StagedRead)]
        wanted = [key for key, lease in zip(keys, staged, strict=True) if isinstance(lease, StagedRead)]
        answers = await self._calls.run(self._running.transfers.load(wanted, leases), _close_reads)
        loaded = iter(answers)
        return [next(loaded) if isinstance(lease, StagedRead) else lease for lease in staged]

    async def _publish(
        self, transfers: Transfers, taken: Sequence[StagedObject | None], written: Sequence[int]
    ) -> list[Result]:
        results = await transfers.publish(taken, written)
        for staged, result in zip(taken, results, strict=True):
            if staged is not None and result is Result.OK:
                self._sizes[staged.key] = staged.size
        return results

    def _forget_size(self, key: ObjectKey) -> None:
        self._sizes.pop(key, None)

    async def _delete(self, keys: Sequence[ObjectKey]) -> list[int | Result]:
        transfers = self._running.transfers
        distinct = list(dict.fromkeys(keys))
        present = _where(await transfers.present(distinct), distinct)
        freed: dict[ObjectKey, int | Result] = {key: self._sizes.get(key, 0) for key in present}
        if present:
            await self._running.adapter.delete(present)
            kept = _where(await transfers.present(present), present)
            freed.update(dict.fromkeys(kept, Result.IO_ERROR))
        return [freed.pop(key, Result.NOT_FOUND) for key in keys]

    async def _list(self, model_name: str, page_size: int, cursor: str) -> KeyPage:
        try:
            page = await self._running.adapter.list_keys(model_name, page_size, cursor)
        except NotImplementedError as error:
            raise ListingUnsupported(f"{self.description} cannot list its keys") from error
        entries = [(from_lmcache(entry.key.to_object_key()), entry.size_bytes) for entry in page.entries]
        return KeyPage(entries, page.next_page_token or "")


def _where(found: Sequence[bool], keys: Sequence[ObjectKey]) -> list[ObjectKey]:
    return [key for key, there in zip(keys, found, strict=True) if there]


def _close_reads(answers: Sequence[ReadLease | Result]) -> None:
    for lease in answers:
        if isinstance(lease, ReadLease):
            lease.close()
