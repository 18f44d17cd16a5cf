from collections.abc import Sequence

import pytest

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.backends.contract import Extent, ReadLease, WriteLease
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.errors import TicketInUse, UnknownSession, UnknownTicket
from kvchaos_sidecar.sessions.tickets import LoadTicket, StoreTicket, TicketTable


class Lease(ReadLease):
    def __init__(self) -> None:
        self.extent = Extent(0, 0, 1)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Room(WriteLease):
    def __init__(self) -> None:
        self.key = ObjectKey(b"k", "m", 0)
        self.extent = Extent(0, 0, 10)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(clock: ManualClock) -> TicketTable[LoadTicket]:
    return TicketTable(clock, 10.0)


def granted(table: TicketTable[LoadTicket], request_id: int, leases: Sequence[Lease]) -> LoadTicket:
    ticket = LoadTicket(request_id, inline=False)
    with table.opened(ticket):
        ticket.grant(dict(enumerate(leases)))
        table.renew(ticket)
    return ticket


def test_ending_a_ticket_closes_its_leases_once(table: TicketTable[LoadTicket]) -> None:
    leases = [Lease(), Lease()]
    ticket = granted(table, 1, leases)
    assert table.grants == 2
    table.end(ticket)
    table.end(ticket)
    assert [lease.closed for lease in leases] == [1, 1]
    assert table.grants == 0
    with pytest.raises(UnknownTicket):
        table.find(1)


def test_a_ticket_that_ended_before_it_was_granted_gives_the_leases_straight_back(
    table: TicketTable[LoadTicket],
) -> None:
    lease, ticket = Lease(), LoadTicket(1, inline=False)

    def request() -> None:
        with table.opened(ticket):
            table.end(ticket)
            ticket.grant({0: lease})

    with pytest.raises(UnknownTicket, match="given up"):
        request()
    assert lease.closed == 1


def test_a_failed_request_leaves_no_ticket(table: TicketTable[LoadTicket]) -> None:
    lease, ticket = Lease(), LoadTicket(1, inline=False)

    def request() -> None:
        with table.opened(ticket):
            ticket.grant({0: lease})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        request()
    assert lease.closed == 1
    assert table.get(1) is None


def test_a_request_that_was_granted_nothing_leaves_no_ticket(table: TicketTable[LoadTicket]) -> None:
    granted(table, 1, [])
    assert table.get(1) is None


def test_a_request_id_in_use_is_refused_and_its_ticket_stays(table: TicketTable[LoadTicket]) -> None:
    ticket = granted(table, 1, [Lease()])
    with pytest.raises(TicketInUse), table.opened(LoadTicket(1, inline=False)):
        pass
    assert table.find(1) is ticket


def test_ending_an_old_ticket_leaves_a_new_one_of_the_same_id(table: TicketTable[LoadTicket]) -> None:
    old = granted(table, 1, [Lease()])
    table.end(old)
    new = granted(table, 1, [Lease()])
    table.end(old)
    assert table.find(1) is new


def test_leases_in_use_are_closed_when_the_last_user_is_done(table: TicketTable[LoadTicket]) -> None:
    lease = Lease()
    ticket = granted(table, 1, [lease])
    ticket.pin()
    ticket.pin()
    table.end(ticket)
    ticket.unpin()
    assert lease.closed == 0
    ticket.unpin()
    assert lease.closed == 1
    with pytest.raises(UnknownTicket):
        ticket.pin()


def test_tickets_expire_after_their_time(clock: ManualClock, table: TicketTable[LoadTicket]) -> None:
    first, second = Lease(), Lease()
    granted(table, 1, [first])
    clock.advance(5)
    granted(table, 2, [second])
    clock.advance(5)
    assert table.expire() == 1
    assert (first.closed, second.closed) == (1, 0)
    table.renew(table.find(2))
    clock.advance(9)
    assert table.expire() == 0


def test_a_ticket_that_waits_for_the_store_does_not_expire(
    clock: ManualClock, table: TicketTable[LoadTicket]
) -> None:
    ticket = LoadTicket(1, inline=False)
    with table.opened(ticket):
        clock.advance(1000)
        assert table.expire() == 0
        ticket.grant({0: Lease()})


def test_a_closed_table_holds_nothing_and_takes_nothing(table: TicketTable[LoadTicket]) -> None:
    lease = Lease()
    granted(table, 1, [lease])
    table.close()
    assert lease.closed == 1
    with pytest.raises(UnknownSession), table.opened(LoadTicket(2, inline=False)):
        pass


def test_taking_the_leases_ends_the_ticket_without_discarding_them() -> None:
    discarded: list[WriteLease] = []
    room, ticket = Room(), StoreTicket(1, inline=False, discard=discarded.extend)
    ticket.grant({3: room})
    assert ticket.take() == {3: room}
    ticket.end()
    assert discarded == []


def test_leases_that_are_being_written_cannot_be_taken() -> None:
    ticket = StoreTicket(1, inline=True, discard=lambda leases: None)
    ticket.grant({0: Room()})
    ticket.pin()
    with pytest.raises(TicketInUse):
        ticket.take()
    ticket.unpin()
    assert list(ticket.take()) == [0]


@pytest.mark.parametrize(("inline", "received", "claimed", "agreed"), [
    (False, 0, 10, 10),
    (True, 10, 10, 10),
    (True, 9, 10, 0),
    (True, 10, 9, 0),
])  # fmt: skip
def test_inline_a_length_counts_only_when_the_daemon_saw_as_much(
    inline: bool, received: int, claimed: int, agreed: int
) -> None:
    ticket = StoreTicket(1, inline, discard=lambda leases: None)
    ticket.received[0] = received
    assert ticket.agreed_length(0, claimed) == agreed


def test_what_is_asked_for_is_claimed_until_it_is_granted_and_then_what_was(
    table: TicketTable[LoadTicket],
) -> None:
    ticket = LoadTicket(1, inline=False)
    with table.opened(ticket, keys=5):
        assert (table.claimed, table.grants) == (5, 0)
        ticket.grant({0: Lease(), 3: Lease()})
    assert (table.claimed, table.grants) == (2, 2)
    table.end(ticket)
    assert table.claimed == 0
