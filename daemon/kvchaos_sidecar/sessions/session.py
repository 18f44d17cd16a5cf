"""One connected cache server process and everything it holds."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.errors import TooManyGrants
from kvchaos_sidecar.sessions.holds import Holds
from kvchaos_sidecar.sessions.locks import LockTable
from kvchaos_sidecar.sessions.tickets import LoadTicket, StoreTicket, TicketTable
from kvchaos_sidecar.sessions.token import HandoffToken

UNKNOWN_UID = -1

GiveBackLocks = Callable[[Sequence[ObjectKey]], None]
"""Tells the store about locks that ended, each named once."""


class EndReason(StrEnum):
    """Why a session ended."""

    CLOSED = "closed"
    """The client said so."""
    STREAM_LOST = "stream_lost"
    """The client cancelled OpenSession, was killed or became unreachable."""
    HANDOFF_LOST = "handoff_lost"
    """The client's handoff connection ended."""
    RESET = "reset"
    """A fault rule reset the connection, or played a restart."""
    DRAINED = "drained"
    """The daemon is about to end."""


class HandoffPeer(Protocol):
    """The client's end of a handoff connection."""

    async def send_descriptors(self, request_id: int, descriptors: Sequence[int]) -> None:
        """Passes descriptors; waits while the client does not take them."""

    def close(self) -> None:
        """Ends the connection. Idempotent."""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Bounds on what a session may hold."""

    lock_ttl_s: float
    grant_ttl_s: float
    grants: int
    """Leases that it may hold at the same time, loads and stores together."""


class Session:
    """What one client holds. Everything is given back by :meth:`end`, whatever the reason.

    Attributes:
        id: unguessable; whoever knows it may act for the session.
        opened_at: seconds since the epoch.
        uid: user id of the client's process, from the handoff connection; -1 when unknown.
        handoff: the client's handoff connection, once it has one.
        holds: its calls that a fault keeps waiting.
        end_reason: None while the session is open.
        number: sessions count from 1 in the order in which they are opened.
        calls: calls judged so far.
    """

    def __init__(
        self, client_name: str, clock: Clock, limits: SessionLimits, give_back_locks: GiveBackLocks
    ) -> None:
        self.id = secrets.token_urlsafe(24)
        self.client_name = client_name
        self.opened_at = clock.time()
        self.uid = UNKNOWN_UID
        self.token = HandoffToken(clock)
        self.handoff: HandoffPeer | None = None
        self.locks = LockTable(clock, limits.lock_ttl_s, give_back_locks)
        self.loads: TicketTable[LoadTicket] = TicketTable(clock, limits.grant_ttl_s)
        self.stores: TicketTable[StoreTicket] = TicketTable(clock, limits.grant_ttl_s)
        self.holds = Holds()
        self.end_reason: EndReason | None = None
        self.number = 0
        self.calls = 0
        self._max_grants = limits.grants
        self._news = asyncio.Event()

    @property
    def short_id(self) -> str:
        """The first eight characters of the id, for people."""
        return self.id[:8]

    @property
    def grants(self) -> int:
        """Leases held."""
        return self.loads.grants + self.stores.grants

    def require_room(self, keys: int) -> None:
        """Raises TooManyGrants when leases on so many more keys would be more than it may hold."""
        held = self.loads.claimed + self.stores.claimed
        if held + keys > self._max_grants:
            raise TooManyGrants(
                f"this session holds {held} grants and asks for {keys} more; limits.session_grants is "
                f"{self._max_grants}: release what has been loaded, or raise it"
            )

    def attach(self, handoff: HandoffPeer, uid: int) -> None:
        """Gives the session its handoff connection."""
        self.handoff = handoff
        self.uid = uid

    def notify(self) -> None:
        """Wakes whoever waits for news: the faults in force changed."""
        self._news.set()

    async def wait_for_news(self) -> None:
        """Returns when the faults in force changed or the session ended since the last call."""
        await self._news.wait()
        self._news.clear()

    def end(self, reason: EndReason) -> None:
        """Gives back everything. The handoff connection goes first: a client whose Release can still be sent
        has read its bytes while it held them."""
        self.end_reason = reason
        self.holds.close()
        if self.handoff is not None:
            self.handoff.close()
        self.loads.close()
        self.stores.close()
        self.locks.close()
        self._news.set()
