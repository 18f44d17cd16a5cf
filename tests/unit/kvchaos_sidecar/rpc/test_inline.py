"""Inline transfer of real descriptors."""

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kvchaos.keys import ObjectKey
from kvchaos.pieces import Piece, WritePiece
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import Extent, ReadLease, WriteLease
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.errors import InvalidRequest, UnknownTicket
from kvchaos_sidecar.rpc.inline import PIECE_SIZE_BYTES, InlineTransfer
from kvchaos_sidecar.sessions.session import EndReason, Session, SessionLimits
from kvchaos_sidecar.sessions.tickets import LoadTicket, StoreTicket


class OpenFile(ReadLease):
    def __init__(self, path: Path, length: int, offset: int = 0) -> None:
        self.extent = Extent(os.open(path, os.O_RDONLY), offset, length)
        self.closed = asyncio.Event()

    def close(self) -> None:
        os.close(self.extent.descriptor)
        self.closed.set()


class Room(WriteLease):
    def __init__(self, descriptor: int, offset: int, length: int) -> None:
        self.key = ObjectKey(b"k", "m", 0)
        self.extent = Extent(descriptor, offset, length)


@pytest.fixture
def session() -> Session:
    return Session("test", ManualClock(), SessionLimits(10.0, 10.0, 100), lambda keys: None)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
def transfer(threads: ThreadPoolExecutor) -> InlineTransfer:
    return InlineTransfer(threads)


def load_of(session: Session, *leases: OpenFile) -> LoadTicket:
    ticket = LoadTicket(1, inline=True)
    with session.loads.opened(ticket):
        ticket.grant(dict(enumerate(leases)))
    return ticket


def pieces_of(transfer: InlineTransfer, session: Session, ticket: LoadTicket) -> list[Piece]:
    async def collect() -> list[Piece]:
        return [piece async for piece in transfer.read(session, ticket)]

    return asyncio.run(collect())


def test_an_object_comes_in_pieces_of_bounded_size(
    tmp_path: Path, session: Session, transfer: InlineTransfer
) -> None:
    content = os.urandom(2 * PIECE_SIZE_BYTES + 3)
    (tmp_path / "object").write_bytes(b"before" + content)
    ticket = load_of(session, OpenFile(tmp_path / "object", len(content), offset=6))
    pieces = pieces_of(transfer, session, ticket)
    assert [len(piece.data) for piece in pieces] == [PIECE_SIZE_BYTES, PIECE_SIZE_BYTES, 3]
    assert [piece.last for piece in pieces] == [False, False, True]
    assert b"".join(piece.data for piece in pieces) == content


def test_an_object_that_is_too_short_fails_alone(
    tmp_path: Path, session: Session, transfer: InlineTransfer
) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"1234")
    ticket = load_of(session, OpenFile(tmp_path / "a", 5), OpenFile(tmp_path / "b", 4))
    short, whole = pieces_of(transfer, session, ticket)
    assert (short.position, short.data, short.last, short.failure) == (0, b"", True, Result.IO_ERROR)
    assert (whole.position, whole.data, whole.last, whole.failure) == (1, b"1234", True, 0)


def test_a_ticket_for_handoff_does_not_move_inline(session: Session, transfer: InlineTransfer) -> None:
    with pytest.raises(InvalidRequest, match="TRANSPORT_HANDOFF"):
        pieces_of(transfer, session, LoadTicket(1, inline=False))


def test_a_file_stays_open_until_the_thread_is_done_although_the_session_ended(
    tmp_path: Path, session: Session, transfer: InlineTransfer, threads: ThreadPoolExecutor
) -> None:
    (tmp_path / "object").write_bytes(b"1234")
    lease = OpenFile(tmp_path / "object", 4)
    ticket = load_of(session, lease)
    thread_is_free = threading.Event()
    threads.submit(thread_is_free.wait)

    async def scenario() -> None:
        reading = asyncio.create_task(anext(transfer.read(session, ticket)))
        await asyncio.sleep(0)
        session.end(EndReason.STREAM_LOST)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not lease.closed.is_set()
        thread_is_free.set()
        await asyncio.wait_for(lease.closed.wait(), 10)

    asyncio.run(scenario())


def store_of(session: Session, path: Path, length: int) -> StoreTicket:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    ticket = StoreTicket(1, inline=True, discard=lambda leases: os.close(descriptor))
    with session.stores.opened(ticket):
        ticket.grant({2: Room(descriptor, 10, length)})
    return ticket


def write(
    transfer: InlineTransfer, session: Session, ticket: StoreTicket, position: int, offset: int, data: bytes
) -> int:
    piece = WritePiece(position, offset, data)
    return asyncio.run(transfer.write(session, ticket, piece))


def test_pieces_are_written_where_their_extent_is(
    tmp_path: Path, session: Session, transfer: InlineTransfer
) -> None:
    ticket = store_of(session, tmp_path / "room", 6)
    assert write(transfer, session, ticket, 2, 0, b"abcd") == 4
    assert write(transfer, session, ticket, 2, 4, b"ef") == 2
    assert (tmp_path / "room").read_bytes() == bytes(10) + b"abcdef"
    assert ticket.received == {2: 6}


@pytest.mark.parametrize(
    ("position", "offset", "data"),
    [(0, 0, b"x"), (2, 1, b"x"), (2, 0, b"1234567"), (2, 0, b""), (2, 0, bytes(PIECE_SIZE_BYTES + 1))],
)
def test_a_piece_outside_its_extent_is_refused_and_nothing_is_written(
    tmp_path: Path, session: Session, transfer: InlineTransfer, position: int, offset: int, data: bytes
) -> None:
    ticket = store_of(session, tmp_path / "room", 6)
    with pytest.raises(InvalidRequest):
        write(transfer, session, ticket, position, offset, data)
    assert (tmp_path / "room").read_bytes() == b""


def test_a_full_disk_fails_the_object_and_swallows_the_rest_of_it(
    session: Session, transfer: InlineTransfer
) -> None:
    ticket = store_of(session, Path("/dev/full"), 6)
    assert write(transfer, session, ticket, 2, 0, b"abc") == 0
    assert ticket.failures == {2: Result.NO_SPACE}
    assert write(transfer, session, ticket, 2, 3, b"def") == 0
    assert ticket.received == {}


def test_an_expired_ticket_takes_no_more(tmp_path: Path, session: Session, transfer: InlineTransfer) -> None:
    ticket = store_of(session, tmp_path / "room", 6)
    session.stores.end(ticket)
    with pytest.raises(UnknownTicket):
        write(transfer, session, ticket, 2, 0, b"abc")
