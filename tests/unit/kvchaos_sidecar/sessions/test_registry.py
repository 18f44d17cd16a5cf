from collections.abc import Sequence

import pytest

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.backends.contract import Extent, ReadLease
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.errors import InvalidRequest, TooManySessions, UnknownSession
from kvchaos_sidecar.sessions.registry import SessionRegistry
from kvchaos_sidecar.sessions.session import EndReason, Session, SessionLimits
from kvchaos_sidecar.sessions.tickets import LoadTicket

KEY = ObjectKey(b"k", "m", 0)


class Observer:
    def __init__(self) -> None:
        self.ended: list[EndReason] = []
        self.locks = 0
        self.grants = 0

    def session_ended(self, reason: EndReason) -> None:
        self.ended.append(reason)

    def locks_expired(self, count: int) -> None:
        self.locks += count

    def grants_expired(self, count: int) -> None:
        self.grants += count


class Peer:
    """Notes what was still held when its connection was closed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.held_at_close: int | None = None

    async def send_descriptors(self, request_id: int, descriptors: Sequence[int]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.held_at_close = self._session.grants


class Lease(ReadLease):
    extent = Extent(0, 0, 1)

    def close(self) -> None:
        pass


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(epoch_s=1000.0)


@pytest.fixture
def observer() -> Observer:
    return Observer()


@pytest.fixture
def sessions(clock: ManualClock, observer: Observer) -> SessionRegistry:
    return SessionRegistry(clock, SessionLimits(20.0, 10.0, 100), 2, observer, lambda keys: None)


def load_something(session: Session) -> None:
    ticket = LoadTicket(1, inline=True)
    with session.loads.opened(ticket):
        ticket.grant({0: Lease()})
        session.loads.renew(ticket)


def test_a_session_is_found_by_its_id_until_it_ends(sessions: SessionRegistry, observer: Observer) -> None:
    session = sessions.open("me")
    assert sessions.find(session.id) is session
    assert session.opened_at == 1000.0
    sessions.end(session, EndReason.CLOSED)
    sessions.end(session, EndReason.STREAM_LOST)
    assert observer.ended == [EndReason.CLOSED]
    assert session.end_reason is EndReason.CLOSED
    with pytest.raises(UnknownSession):
        sessions.find(session.id)


def test_ids_are_long_and_differ(sessions: SessionRegistry) -> None:
    first, second = sessions.open("a"), sessions.open("a")
    assert first.id != second.id
    assert len(first.id) >= 32


def test_there_are_no_more_sessions_than_allowed(sessions: SessionRegistry) -> None:
    first = sessions.open("a")
    sessions.open("b")
    with pytest.raises(TooManySessions, match=r"limits\.max_sessions"):
        sessions.open("c")
    sessions.end(first, EndReason.CLOSED)
    sessions.open("c")


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb"])
def test_a_name_that_does_not_fit_a_log_line_is_refused(sessions: SessionRegistry, name: str) -> None:
    with pytest.raises(InvalidRequest, match="client_name"):
        sessions.open(name)
    assert sessions.all() == []


def test_the_end_gives_back_what_is_held_and_the_connection_goes_first(sessions: SessionRegistry) -> None:
    session = sessions.open("a")
    peer = Peer(session)
    session.attach(peer, uid=7)
    session.locks.acquire([KEY])
    load_something(session)
    assert (sessions.locks_total, sessions.grants_total) == (1, 1)
    sessions.end(session, EndReason.HANDOFF_LOST)
    assert peer.held_at_close == 1
    assert (session.locks.total, session.grants) == (0, 0)
    assert (sessions.locks_total, sessions.grants_total) == (0, 0)


def test_what_expires_is_counted(sessions: SessionRegistry, clock: ManualClock, observer: Observer) -> None:
    session = sessions.open("a")
    session.locks.acquire([KEY, KEY])
    load_something(session)
    clock.advance(10)
    sessions.expire()
    assert (observer.locks, observer.grants) == (0, 1)
    clock.advance(10)
    sessions.expire()
    assert (observer.locks, observer.grants) == (2, 1)
