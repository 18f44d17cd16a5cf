"""The open sessions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.errors import InvalidRequest, TooManySessions, UnknownSession
from kvchaos_sidecar.sessions.session import EndReason, GiveBackLocks, Session, SessionLimits

MAX_CLIENT_NAME_CHARS = 200


class SessionObserver(Protocol):
    """Hears what becomes of sessions and of what they hold."""

    def session_ended(self, reason: EndReason) -> None:
        """A session ended."""

    def locks_expired(self, count: int) -> None:
        """Locks ran out."""

    def grants_expired(self, count: int) -> None:
        """Grants ran out."""


class SessionRegistry:
    """Opens, finds and ends sessions. Used from the event loop; the totals may be read from any thread.

    Attributes:
        opened_total: sessions opened since start.
    """

    def __init__(
        self,
        clock: Clock,
        limits: SessionLimits,
        max_sessions: int,
        observer: SessionObserver,
        give_back_locks: GiveBackLocks,
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._max_sessions = max_sessions
        self._observer = observer
        self._give_back_locks = give_back_locks
        self._sessions: dict[str, Session] = {}
        self._on_end: Callable[[Session, EndReason, int], None] = lambda session, reason, locks: None
        self.opened_total = 0

    def open(self, client_name: str) -> Session:
        """A new session.

        Raises:
            InvalidRequest: the name has not 1 to 200 printable characters.
            TooManySessions: as many as may be are open.
        """
        if not 1 <= len(client_name) <= MAX_CLIENT_NAME_CHARS or not client_name.isprintable():
            raise InvalidRequest(
                f"client_name has {len(client_name)} characters; "
                f"expected 1 to {MAX_CLIENT_NAME_CHARS}, all printable"
            )
        if len(self._sessions) >= self._max_sessions:
            raise TooManySessions(
                f"{self._max_sessions} sessions are open; close one or raise limits.max_sessions"
            )
        session = Session(client_name, self._clock, self._limits, self._give_back_locks)
        self.opened_total += 1
        session.number = self.opened_total
        self._sessions[session.id] = session
        return session

    def on_end(self, callback: Callable[[Session, EndReason, int], None]) -> None:
        """Whom to tell of a session that ended, why, and how many locks it held."""
        self._on_end = callback

    def find(self, session_id: str) -> Session:
        """The open session of that id. Raises UnknownSession when there is none."""
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownSession(
                "the session is not known: it ended, or the daemon was restarted; open a new one"
            )
        return session

    def get(self, session_id: str) -> Session | None:
        """The open session of that id, if there is one."""
        return self._sessions.get(session_id)

    def all(self) -> Sequence[Session]:
        """The open sessions, oldest first."""
        return list(self._sessions.values())

    def end(self, session: Session, reason: EndReason) -> None:
        """Ends a session and gives back what it holds. Idempotent."""
        if self._sessions.pop(session.id, None) is None:
            return
        locks = session.locks.total
        session.end(reason)
        self._observer.session_ended(reason)
        self._on_end(session, reason, locks)

    def end_all(self, reason: EndReason) -> None:
        """Ends every session."""
        for session in self.all():
            self.end(session, reason)

    def expire(self) -> None:
        """Ends the locks and grants whose time to live is over."""
        sessions = self.all()
        self._observer.locks_expired(sum(session.locks.expire() for session in sessions))
        self._observer.grants_expired(
            sum(session.loads.expire() + session.stores.expire() for session in sessions)
        )

    def notify_all(self) -> None:
        """Tells every session's client that the faults in force changed."""
        for session in self.all():
            session.notify()

    def release_held(self) -> None:
        """Lets every call go on that a fault keeps waiting."""
        for session in self.all():
            session.holds.release()

    def release_held_by(self, rules: Collection[str]) -> None:
        """Lets the calls go on that these rules keep waiting."""
        for session in self.all():
            session.holds.release_rules(rules)

    @property
    def held_total(self) -> int:
        """Calls that a fault keeps waiting, over all sessions."""
        return sum(session.holds.count for session in self.all())

    @property
    def locks_total(self) -> int:
        """Locks held, over all sessions."""
        return sum(session.locks.total for session in self.all())

    @property
    def grants_total(self) -> int:
        """Leases held, over all sessions."""
        return sum(session.grants for session in self.all())
