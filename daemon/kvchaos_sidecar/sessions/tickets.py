"""Tickets: what one Load or PrepareStore was granted, from the request until its bytes have moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import ReadLease, WriteLease
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.errors import TicketInUse, UnknownSession, UnknownTicket
from kvchaos_sidecar.rules.call import Call
from kvchaos_sidecar.rules.strike import Strike

LeaseT = TypeVar("LeaseT", ReadLease, WriteLease)


class Ticket(Generic[LeaseT]):
    """The leases of one request. Opened empty, before the backend is asked, so that a request whose client
    goes away meanwhile has something to end: what the backend yields afterwards goes straight back.

    Attributes:
        request_id: chosen by the client, unique among its open tickets of one direction.
        inline: whether the daemon moves the bytes; else the client does, through descriptors.
        grants: lease of each granted position, in ascending order.
        claimed: leases that it holds or, until it is granted, may get.
        deadline: reading of the clock at which it expires; infinite until granted.
        sequence: which call of its session asked for it.
    """

    def __init__(self, request_id: int, inline: bool, give_back: Callable[[Sequence[LeaseT]], None]) -> None:
        self.request_id = request_id
        self.inline = inline
        self.grants: dict[int, LeaseT] = {}
        self.claimed = 0
        self.deadline = math.inf
        self.sequence = 0
        self._give_back: Callable[[Sequence[LeaseT]], None] = give_back
        self._pins = 0
        self._ended = False

    @property
    def transport(self) -> str:
        """How the bytes move, as metrics name it."""
        return "inline" if self.inline else "handoff"

    def grant(self, leases: Mapping[int, LeaseT]) -> None:
        """Takes the leases over, by position.

        Raises:
            UnknownTicket: the ticket has ended; the leases were given back.
        """
        if self._ended:
            self._give_back(list(leases.values()))
            raise UnknownTicket(f"request {self.request_id} was given up before it was granted")
        self.grants = dict(leases)
        self.claimed = len(leases)

    def require_open(self) -> None:
        """Raises UnknownTicket when the leases are gone."""
        if self._ended:
            raise UnknownTicket(f"request {self.request_id} has ended or expired")

    def pin(self) -> None:
        """Keeps the leases while a thread uses them. Raises UnknownTicket when they are gone."""
        self.require_open()
        self._pins += 1

    def unpin(self) -> None:
        """Undoes one :meth:`pin`."""
        self._pins -= 1
        if self._ended:
            self._release_unused()

    def end(self) -> None:
        """Gives the leases back, once no thread uses them any more. Idempotent."""
        self._ended = True
        self._release_unused()

    def take(self) -> dict[int, LeaseT]:
        """Hands the leases to the caller, who ends them. The ticket is over.

        Raises:
            TicketInUse: a thread still uses them; nothing has changed.
        """
        if self._pins:
            raise TicketInUse(f"bytes of request {self.request_id} are still being written")
        self._ended = True
        taken, self.grants = self.grants, {}
        return taken

    def _release_unused(self) -> None:
        if self._pins == 0 and self.grants:
            given_back, self.grants = self.grants, {}
            self._give_back(list(given_back.values()))


class LoadTicket(Ticket[ReadLease]):
    """What a Load was granted."""

    def __init__(self, request_id: int, inline: bool) -> None:
        super().__init__(request_id, inline, _close_all)


class StoreTicket(Ticket[WriteLease]):
    """What a PrepareStore was granted.

    Attributes:
        received: inline transport: bytes written so far, by position.
        failures: inline transport: why positions could not be written.
        judged: the call that prepared the store, and what was decided about it; None for nothing.
    """

    def __init__(
        self, request_id: int, inline: bool, discard: Callable[[Sequence[WriteLease]], None]
    ) -> None:
        super().__init__(request_id, inline, discard)
        self.received: dict[int, int] = {}
        self.failures: dict[int, Result] = {}
        self.judged: tuple[Call, Sequence[Strike]] | None = None

    def agreed_length(self, position: int, claimed: int) -> int:
        """The bytes written at a position; 0, which no object has, when client and daemon disagree."""
        if not self.inline or self.received.get(position, 0) == claimed:
            return claimed
        return 0


TicketT = TypeVar("TicketT", bound=Ticket[Any])


class TicketTable(Generic[TicketT]):
    """The open tickets of one session in one direction."""

    def __init__(self, clock: Clock, time_to_live_s: float) -> None:
        self._clock = clock
        self._time_to_live_s = time_to_live_s
        self._tickets: dict[int, TicketT] = {}
        self._closed = False

    @property
    def grants(self) -> int:
        """Leases held, over all tickets."""
        return sum(len(ticket.grants) for ticket in list(self._tickets.values()))

    @property
    def claimed(self) -> int:
        """Leases held, and those that tickets still wait for."""
        return sum(ticket.claimed for ticket in self._tickets.values())

    @contextmanager
    def opened(self, ticket: TicketT, keys: int = 0) -> Iterator[None]:
        """Enters a ticket while it is being granted leases on at most ``keys``. Ends it when that fails or
        nothing was granted.

        Raises:
            TicketInUse: its request id is taken.
            UnknownSession: the session has ended.
        """
        ticket.claimed = keys
        self._enter(ticket)
        try:
            yield
        except BaseException:
            self.end(ticket)
            raise
        if not ticket.grants:
            self.end(ticket)

    def find(self, request_id: int) -> TicketT:
        """The open ticket of that id. Raises UnknownTicket when there is none."""
        ticket = self._tickets.get(request_id)
        if ticket is None:
            raise UnknownTicket(f"request {request_id} was never granted, has ended or has expired")
        return ticket

    def get(self, request_id: int) -> TicketT | None:
        """The open ticket of that id, if there is one."""
        return self._tickets.get(request_id)

    def renew(self, ticket: TicketT) -> None:
        """Starts the ticket's time to live, again."""
        ticket.deadline = self._clock.monotonic() + self._time_to_live_s

    def end(self, ticket: TicketT) -> None:
        """Ends a ticket and forgets it. Idempotent."""
        self.forget(ticket)
        ticket.end()

    def forget(self, ticket: TicketT) -> None:
        """Removes a ticket whose leases have been taken. Idempotent."""
        if self._tickets.get(ticket.request_id) is ticket:
            del self._tickets[ticket.request_id]

    def expire(self) -> int:
        """Ends the tickets whose time to live is over. Returns how many leases they held."""
        now = self._clock.monotonic()
        overdue = [ticket for ticket in self._tickets.values() if ticket.deadline <= now]
        leases = sum(len(ticket.grants) for ticket in overdue)
        for ticket in overdue:
            self.end(ticket)
        return leases

    def close(self) -> None:
        """Ends every ticket and takes no more."""
        self._closed = True
        for ticket in list(self._tickets.values()):
            self.end(ticket)

    def _enter(self, ticket: TicketT) -> None:
        if self._closed:
            raise UnknownSession("the session has ended; open a new one")
        if ticket.request_id in self._tickets:
            raise TicketInUse(f"request_id {ticket.request_id} is in use; choose one that is not")
        self._tickets[ticket.request_id] = ticket


def _close_all(leases: Sequence[ReadLease]) -> None:
    for lease in leases:
        lease.close()
