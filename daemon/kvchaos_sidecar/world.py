"""What is around a batch: its session, the other sessions and the store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.backends.contract import Backend, Usage
from kvchaos_sidecar.backends.slabs import SlabPool
from kvchaos_sidecar.sessions.session import EndReason, Session

NOTHING_STORED = Usage(0, 0)


class Sessions(Protocol):
    """The open sessions."""

    def end(self, session: Session, reason: EndReason) -> None:
        """Ends one."""

    def end_all(self, reason: EndReason) -> None:
        """Ends all."""


class StoreView:
    """The store as faults see and change it.

    Attributes:
        slabs: memory for altered copies.
        forgotten: what usage has lost in a restart that a fault played.
        sessions: the open sessions, once there is somebody who keeps them.
    """

    def __init__(self, backend: Backend, slabs: SlabPool) -> None:
        self.backend = backend
        self.slabs = slabs
        self.forgotten = NOTHING_STORED
        self.sessions: Sessions | None = None

    async def usage(self) -> Usage:
        """What the store holds, without what was forgotten. Raises BackendError."""
        usage = await self.backend.usage()
        if self.forgotten is NOTHING_STORED:
            return usage
        lost = self.forgotten.bytes_by_cache_salt
        left = {
            salt: held - lost.get(salt, 0)
            for salt, held in usage.bytes_by_cache_salt.items()
            if held > lost.get(salt, 0)
        }
        return Usage(max(0, usage.total_bytes - self.forgotten.total_bytes), usage.capacity_bytes, left)


class SessionWorld:
    """Implements :class:`kvchaos_sidecar.batch.World` for the calls of one session."""

    def __init__(self, store: StoreView, session: Session) -> None:
        self._store = store
        self._session = session

    @property
    def slabs(self) -> SlabPool:
        """Memory for altered copies."""
        return self._store.slabs

    def now(self) -> float:
        """Seconds that never go back, as the waiting of :meth:`hold` counts them."""
        return time.monotonic()

    async def hold(self, rule: str, seconds: float) -> None:
        """Waits, until halt, the end of the rule or the end of the session."""
        await self._session.holds.wait(seconds, rule)

    async def delete_objects(self, keys: Sequence[ObjectKey]) -> None:
        """Deletes objects from the store."""
        await self._store.backend.delete(keys)

    async def stored_bytes(self) -> int:
        """What the store holds."""
        return (await self._store.usage()).total_bytes

    def end_session(self) -> None:
        """Ends the session."""
        if self._store.sessions is not None:
            self._store.sessions.end(self._session, EndReason.RESET)

    async def lose_metadata(self) -> None:
        """Ends every session and forgets the usage."""
        self._store.forgotten = await self._store.backend.usage()
        if self._store.sessions is not None:
            self._store.sessions.end_all(EndReason.RESET)
