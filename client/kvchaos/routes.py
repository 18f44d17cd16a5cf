"""The two ways that a batch's bytes can go between daemon and client."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kvchaos.deadline import Deadline
from kvchaos.grants import Grant
from kvchaos.handoff import HandoffConnection, close_all
from kvchaos.inline import read_pieces, write_pieces
from kvchaos.results import Result
from kvchaos.session import Session
from kvchaos.transfer import Direction, Extent, Transfer
from kvchaos.v1 import common_pb2
from kvchaos.workers import Workers

Done = Callable[[Mapping[int, Result]], None]
Arrived = Callable[[int], None]


class Route(Protocol):
    """The way of one request's bytes."""

    transport: common_pb2.Transport

    def move(
        self,
        direction: Direction,
        grants: Sequence[Grant],
        descriptor_count: int,
        buffers: Sequence[memoryview],
        done: Done,
        arrived: Arrived | None = None,
    ) -> None:
        """Moves every grant's bytes, on a worker thread and perhaps with the help of others.

        Calls ``done`` once, with the positions that failed and why; nothing touches a buffer after that.
        Before it, ``arrived`` may be called with positions whose bytes are whole and good.

        Raises:
            SidecarError: nothing can be moved; ``done`` is not called.
        """

    def close(self) -> None:
        """Nothing more is expected from the daemon on this way. Idempotent."""

    def release(self, failed_positions: Iterable[int]) -> None:
        """Tells the daemon that a load is over and which positions did not arrive whole; closes."""


def open_route(session: Session, workers: Workers, request_id: int, keys: int, deadline: Deadline) -> Route:
    """The way for the bytes of a request that is about to be sent.

    A batch that could need more descriptors than this process may have open goes inline.
    """
    if session.handoff is None or keys > _descriptor_room():
        return _InlineRoute(session, request_id, deadline)
    return _HandoffRoute(session, session.handoff, workers, request_id, deadline)


def _descriptor_room() -> int:
    """Descriptors that one batch may take: half of what the process may have open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit // 2


class _HandoffRoute:
    transport = common_pb2.TRANSPORT_HANDOFF

    def __init__(
        self,
        session: Session,
        connection: HandoffConnection,
        workers: Workers,
        request_id: int,
        deadline: Deadline,
    ) -> None:
        self._session = session
        self._connection = connection
        self._workers = workers
        self._request_id = request_id
        self._deadline = deadline
        self._delivery = connection.open_delivery(request_id)

    def move(
        self,
        direction: Direction,
        grants: Sequence[Grant],
        descriptor_count: int,
        buffers: Sequence[memoryview],
        done: Done,
        arrived: Arrived | None = None,
    ) -> None:
        descriptors = self._delivery.take(descriptor_count, self._deadline.remaining_s)

        def finished(failed: Mapping[int, Result]) -> None:
            close_all(descriptors)
            done({**failed, **self._lapsed(grants)})

        def good(position: int) -> None:
            if arrived is not None and not self._lapsed(grants[:1]):
                arrived(position)

        extents = [
            Extent(grant.position, descriptors[grant.descriptor], grant.offset, buffers[grant.position])
            for grant in grants
        ]
        listener = None if arrived is None else good
        Transfer(direction, extents, self._deadline.expired, finished, listener).run(self._workers)

    def close(self) -> None:
        self._connection.close_delivery(self._delivery)

    def release(self, failed_positions: Iterable[int]) -> None:
        self.close()
        self._connection.release(self._request_id, failed_positions)

    def _lapsed(self, grants: Sequence[Grant]) -> dict[int, Result]:
        """Grants that did not last: the daemon may have reused what they named before it was read."""
        ttl_s = self._session.facts.grant_ttl_s
        if self._session.ended:
            return {grant.position: Result.UNAVAILABLE for grant in grants}
        if ttl_s and self._deadline.elapsed_s >= ttl_s:
            return {grant.position: Result.TIMED_OUT for grant in grants}
        return {}


class _InlineRoute:
    transport = common_pb2.TRANSPORT_INLINE

    def __init__(self, session: Session, request_id: int, deadline: Deadline) -> None:
        self._session = session
        self._request_id = request_id
        self._deadline = deadline

    def move(
        self,
        direction: Direction,
        grants: Sequence[Grant],
        descriptor_count: int,
        buffers: Sequence[memoryview],
        done: Done,
        arrived: Arrived | None = None,
    ) -> None:
        wanted = {grant.position: buffers[grant.position] for grant in grants}
        if not wanted:
            done({})
        elif direction is Direction.READ:
            done(read_pieces(self._session, self._request_id, wanted, self._deadline, arrived))
        else:
            done(write_pieces(self._session, self._request_id, wanted, self._deadline))

    def close(self) -> None:
        """Nothing is held."""

    def release(self, failed_positions: Iterable[int]) -> None:
        """Nothing to tell: the daemon's side ends with the stream."""
