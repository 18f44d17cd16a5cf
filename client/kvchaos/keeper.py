"""Keeping a session open: opening it, noticing its end, and opening the next one."""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable

import grpc

from kvchaos.backoff import Backoff
from kvchaos.errors import KVChaosError, SidecarUnavailable
from kvchaos.reports import FaultsInForce
from kvchaos.session import Session

logger = logging.getLogger(__name__)

LEAVE_TIMEOUT_S = 1.0
"""How long a daemon has to take note that a client closes."""


class SessionListener:
    """Told of changes, one call for each, on the keeper's thread. Override what is of interest."""

    def connected(self, session: Session) -> None:
        """A session was opened."""

    def disconnected(self, cause: KVChaosError) -> None:
        """The session ended, or the first attempt to open one failed. Not repeated for further failures."""

    def faults_changed(self, faults: FaultsInForce) -> None:
        """The daemon has other faults in force."""


class SessionKeeper:
    """One thread that keeps a session open until closed, with a bounded rate of attempts.

    Args:
        open_channel: makes a fresh channel for one attempt.
        open_session: opens a session over it, or raises KVChaosError.
        listener: told of every change.
        backoff: delays between attempts. A session that lived longer than the longest delay starts it anew.
        chance: source of the jitter.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        open_channel: Callable[[], grpc.Channel],
        open_session: Callable[[grpc.Channel], Session],
        listener: SessionListener,
        backoff: Backoff,
        chance: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._open_channel = open_channel
        self._open_session = open_session
        self._listener = listener
        self._backoff = backoff
        self._chance = chance
        self._clock = clock
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._channel: grpc.Channel | None = None
        self._cause: KVChaosError = SidecarUnavailable("not connected yet")
        self._sessions_opened = 0
        self._attempts = 0
        self._first_attempt_over = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvchaos-session", daemon=True)
        self._thread.start()

    @property
    def last_session(self) -> Session | None:
        """The newest session, whether it is still open or not."""
        return self._session

    @property
    def session(self) -> Session | None:
        """The open session, if there is one."""
        session = self._session
        return session if session is not None and not session.ended else None

    @property
    def cause(self) -> KVChaosError:
        """Why there is no session, or why the last one ended."""
        return self._cause

    @property
    def sessions_opened(self) -> int:
        """How many sessions have been opened so far."""
        return self._sessions_opened

    @property
    def attempts(self) -> int:
        """How often opening one has been tried so far."""
        return self._attempts

    @property
    def is_of_another_process(self) -> bool:
        """Whether this process is a fork of the one that made the keeper, and lacks its thread."""
        return os.getpid() != self._pid

    def require(self) -> Session:
        """The open session.

        Raises:
            SidecarUnavailable: there is none, or this process is a fork of the one that opened it.
        """
        if self.is_of_another_process:
            raise SidecarUnavailable(
                f"this client belongs to process {self._pid}; a forked process makes its own"
            )
        session = self.session
        if session is None:
            raise SidecarUnavailable(f"no session with the sidecar: {self._cause}")
        return session

    def wait_first_attempt(self, timeout_s: float) -> bool:
        """Waits until the first attempt has succeeded or failed, and says whether a session is open."""
        self._first_attempt_over.wait(timeout_s)
        return self.session is not None

    def close(self, timeout_s: float) -> None:
        """Ends the session and the thread. Idempotent."""
        self._closing.set()
        with self._lock:
            session, channel = self._session, self._channel
        if session is not None:
            session.leave(min(timeout_s, LEAVE_TIMEOUT_S))
            session.close()
        if channel is not None:
            channel.close()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        failures = 0
        told_down = False
        while not self._closing.is_set():
            opened_before = self._sessions_opened
            lived_s, cause = self._hold_one_session()
            failures = 1 if lived_s > self._backoff.max_s else failures + 1
            told_down = told_down and self._sessions_opened == opened_before
            if not (told_down or self._closing.is_set()):
                self._tell(lambda: self._listener.disconnected(cause))  # noqa: B023
                told_down = True
            self._first_attempt_over.set()
            self._closing.wait(self._backoff.delay_s(failures, self._chance))

    def _hold_one_session(self) -> tuple[float, KVChaosError]:
        """Opens a session and returns when it is over: how long it lived, and why it ended."""
        try:
            session = self._open()
        except KVChaosError as error:
            self._cause = error
            return 0.0, error
        opened_at = self._clock()
        self._tell(lambda: self._listener.connected(session))
        self._first_attempt_over.set()
        cause = session.follow(lambda faults: self._tell(lambda: self._listener.faults_changed(faults)))
        self._cause = cause
        session.close()
        return self._clock() - opened_at, cause

    def _open(self) -> Session:
        self._attempts += 1
        channel = self._open_channel()
        with self._lock:
            self._channel = channel
        try:
            session = self._open_session(channel)
        except BaseException:
            channel.close()
            raise
        with self._lock:
            self._session = session
        self._sessions_opened += 1
        if self._closing.is_set():
            session.close()
        return session

    def _tell(self, listener: Callable[[], None]) -> None:
        try:
            listener()
        except Exception:
            logger.exception("a session listener failed")
