"""The client: the object through which a cache server uses a sidecar as its store."""

from __future__ import annotations

import atexit
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from kvchaos.answers import Outcome, answer, read_results
from kvchaos.backoff import Backoff
from kvchaos.channel import TlsSettings, open_channel
from kvchaos.deadline import Deadline
from kvchaos.errors import InvalidKeyError, KVChaosError, SidecarError
from kvchaos.keeper import SessionKeeper, SessionListener
from kvchaos.keys import MAX_BATCH_KEYS, ObjectKey, encode_keys
from kvchaos.load import Load, OnCompletion, OnResult
from kvchaos.reports import (
    CacheStatus,
    Deleted,
    FaultsInForce,
    KeyPage,
    Usage,
    read_deleted,
    read_page,
    read_status,
    read_usage,
)
from kvchaos.results import Result
from kvchaos.session import Session, SessionFacts, open_session
from kvchaos.store import Store
from kvchaos.transfer import whole_buffer
from kvchaos.v1 import cache_pb2, common_pb2
from kvchaos.workers import Workers

logger = logging.getLogger(__name__)

MAX_CLIENT_NAME_CHARS = 200
DEFAULT_TIMEOUT_S = 10.0
EXIT_TIMEOUT_S = 2.0
"""How long the end of the interpreter waits for a client that nobody closed."""

T = TypeVar("T")


class L2Client:
    """A store of KV objects behind a sidecar. Safe to use from several threads.

    Every call returns a future at once. Its exception, if it has one, is a
    :class:`~kvchaos.errors.SidecarError`; trouble with single keys is in the results. A call whose
    arguments are wrong raises ValueError instead, before anything has happened. While the daemon cannot be
    reached, calls fail at once and the client goes on trying to connect.

    A client belongs to the process that made it; in a fork of it, every call fails. One that is still open
    when the interpreter ends is closed then: a thread inside gRPC that outlives the interpreter aborts the
    process.

    Args:
        target: ``unix:/PATH`` or ``HOST:PORT`` of the daemon's cache listener.
        client_name: what the daemon calls this client in its log and status, 1 to 200 characters.
        token: sent as a bearer token; empty for none.
        tls: None for plain text.
        handoff: use descriptor passing where the daemon offers it.
        workers: threads that move bytes.
        timeout_s: how long a call may take that does not say otherwise, and an attempt to connect.
        listener: told when a session opens or ends and when the faults in force change.
        backoff: delays between attempts to connect.
        chance: source of their jitter.
        clock: seconds that only grow.

    Raises:
        ConfigError: the target or the TLS files cannot be used.
        ValueError: another argument is out of its range.
    """

    def __init__(
        self,
        target: str,
        client_name: str,
        *,
        token: str = "",
        tls: TlsSettings | None = None,
        handoff: bool = True,
        workers: int = 4,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        listener: SessionListener | None = None,
        backoff: Backoff | None = None,
        chance: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 1 <= len(client_name) <= MAX_CLIENT_NAME_CHARS:
            raise ValueError(f"client_name {client_name!r} has not 1 to {MAX_CLIENT_NAME_CHARS} characters")
        if workers < 1 or timeout_s <= 0:
            raise ValueError(f"workers ({workers}) and timeout_s ({timeout_s:g}) must be positive")
        self.target = target
        self._timeout_s = timeout_s
        self._clock = clock
        self._closing = threading.Event()
        open_channel(target, tls).close()
        self._workers = Workers(workers, "kvchaos-transfer")

        def open_one(channel: grpc.Channel) -> Session:
            return open_session(channel, client_name, token, handoff, timeout_s)

        self._keeper = SessionKeeper(
            open_channel=lambda: open_channel(target, tls, keepalive=True),
            open_session=open_one,
            listener=listener or SessionListener(),
            backoff=backoff or Backoff(),
            chance=chance or random.Random(),  # noqa: S311 (jitter, not a secret)
            clock=clock,
        )
        atexit.register(self.close, EXIT_TIMEOUT_S)

    @property
    def connected(self) -> bool:
        """Whether a session is open."""
        return self._keeper.session is not None

    @property
    def session_id(self) -> str:
        """Id of the open session; empty without one."""
        session = self._keeper.session
        return session.id if session is not None else ""

    @property
    def facts(self) -> SessionFacts | None:
        """What the daemon said when the newest session opened; None before the first."""
        session = self._keeper.last_session
        return session.facts if session is not None else None

    @property
    def faults(self) -> FaultsInForce | None:
        """The faults in force as last heard; None before the first session."""
        session = self._keeper.last_session
        return session.faults if session is not None else None

    @property
    def sessions_opened(self) -> int:
        """How many sessions have been opened so far."""
        return self._keeper.sessions_opened

    @property
    def connection_attempts(self) -> int:
        """How often opening a session has been tried so far."""
        return self._keeper.attempts

    @property
    def cause(self) -> KVChaosError:
        """Why there is no session, or why the last one ended."""
        return self._keeper.cause

    def wait_connected(self, timeout_s: float | None = None) -> bool:
        """Waits for the first attempt to connect to succeed or fail; says whether a session is open."""
        return self._keeper.wait_first_attempt(self._timeout_s if timeout_s is None else timeout_s)

    def lookup_and_lock(
        self, keys: Sequence[ObjectKey], timeout_s: float | None = None
    ) -> Future[list[Result]]:
        """Says which keys are present (OK) and locks those for this session."""
        batch = _encode(keys)
        if not keys:
            return _done([])
        return self._ask(
            "LookupAndLock",
            lambda session: cache_pb2.LookupAndLockRequest(session_id=session, keys=batch),
            lambda message: read_results(message.results, len(keys)),
            timeout_s,
        )

    def unlock(self, keys: Sequence[ObjectKey], timeout_s: float | None = None) -> Future[int]:
        """Takes back one lock per key, and says how many were held."""
        batch = _encode(keys)
        if not keys:
            return _done(0)
        return self._ask(
            "Unlock",
            lambda session: cache_pb2.UnlockRequest(session_id=session, keys=batch),
            lambda message: int(message.released),
            timeout_s,
        )

    def load(
        self,
        keys: Sequence[ObjectKey],
        buffers: Sequence[object],
        timeout_s: float | None = None,
        on_result: OnResult | None = None,
        on_completion: OnCompletion | None = None,
    ) -> Future[list[Result]]:
        """Reads each object into its buffer; only those with OK arrived whole.

        Once the future is done, nothing touches the buffers any more. Because of that a load may last longer
        than its deadline by as long as the operating system takes for a read that has begun.

        Args:
            buffers: writable contiguous memory, exactly as long as the object.
            on_result: told positions and their outcome before the future is done, from threads of the client:
                first every key that the daemon refuses, then each object as it arrives whole. Reads that fail
                show only in the future. It must be quick and must not raise.
            on_completion: told, before the future is done, how the daemon wants the result to reach the
                cache server. A fault that only an adapter can carry out; others may leave it.
        """
        memory = _memory(keys, buffers)
        for position, buffer in enumerate(memory):
            if buffer.readonly:
                raise ValueError(f"buffer {position} is read-only")

        def start(session: Session, deadline: Deadline, batch: common_pb2.KeyBatch) -> Future[list[Result]]:
            return Load(session, self._workers, memory, deadline, on_result, on_completion).start(batch)

        return self._start(keys, timeout_s, start)

    def store(
        self, keys: Sequence[ObjectKey], buffers: Sequence[object], timeout_s: float | None = None
    ) -> Future[list[Result]]:
        """Stores each buffer under its key: OK where it was written, PRESENT where the key was there.

        Once the future is done, nothing reads the buffers any more.
        """
        memory = _memory(keys, buffers)

        def start(session: Session, deadline: Deadline, batch: common_pb2.KeyBatch) -> Future[list[Result]]:
            return Store(session, self._workers, memory, deadline).start(batch)

        return self._start(keys, timeout_s, start)

    def delete(self, keys: Sequence[ObjectKey], timeout_s: float | None = None) -> Future[list[Deleted]]:
        """Deletes the keys, locked or not, and says what each freed."""
        batch = _encode(keys)
        if not keys:
            return _done([])
        return self._ask(
            "Delete",
            lambda session: cache_pb2.DeleteRequest(session_id=session, keys=batch),
            lambda message: read_deleted(message, len(keys)),
            timeout_s,
        )

    def list_keys(
        self,
        model_name: str = "",
        page_size: int = 500,
        cursor: str = "",
        timeout_s: float | None = None,
    ) -> Future[KeyPage]:
        """One page of the keys in the store, of one model unless ``model_name`` is empty.

        Args:
            page_size: 1 to 10,000.
            cursor: from the previous page; empty for the first.
        """
        if not 1 <= page_size <= MAX_BATCH_KEYS:
            raise ValueError(f"page_size {page_size} is not in [1, {MAX_BATCH_KEYS}]")
        return self._ask(
            "ListKeys",
            lambda session: cache_pb2.ListKeysRequest(
                session_id=session, model_name=model_name, page_size=page_size, cursor=cursor
            ),
            read_page,
            timeout_s,
        )

    def usage(self, timeout_s: float | None = None) -> Future[Usage]:
        """What the store holds."""
        return self._ask(
            "GetUsage",
            lambda session: cache_pb2.GetUsageRequest(session_id=session),
            read_usage,
            timeout_s,
        )

    def status(self, timeout_s: float | None = None) -> Future[CacheStatus]:
        """The daemon as this session sees it."""
        return self._ask(
            "GetCacheStatus",
            lambda session: cache_pb2.GetCacheStatusRequest(session_id=session),
            read_status,
            timeout_s,
        )

    def close(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Ends the session. Calls under way fail, and their buffers are left alone. Idempotent.

        Waits up to ``timeout_s`` for reads and writes that the operating system has begun. In a fork of its
        process, does nothing.
        """
        atexit.unregister(self.close)
        if self._keeper.is_of_another_process:
            return
        self._closing.set()
        self._keeper.close(timeout_s)
        if not self._workers.close(timeout_s):
            logger.warning("a transfer is still busy %.0f s after the client was closed", timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(
        self,
        keys: Sequence[ObjectKey],
        timeout_s: float | None,
        start: Callable[[Session, Deadline, common_pb2.KeyBatch], Future[list[Result]]],
    ) -> Future[list[Result]]:
        batch = _encode(keys)
        if not keys:
            return _done([])
        try:
            session = self._keeper.require()
        except KVChaosError as error:
            return _failed(error)
        return start(session, self._deadline(timeout_s), batch)

    def _ask(
        self,
        method: str,
        build: Callable[[str], Any],
        read: Callable[[Any], T],
        timeout_s: float | None,
    ) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def answered(outcome: Outcome) -> None:
            try:
                value = read(answer(outcome))
            except KVChaosError as error:
                future.set_exception(error)
            except Exception as error:
                logger.exception("the answer to %s could not be read", method)
                future.set_exception(SidecarError(f"the answer to {method} could not be read: {error}"))
            else:
                future.set_result(value)

        try:
            session = self._keeper.require()
            session.call(method, build(session.id), self._deadline(timeout_s).remaining_s, answered)
        except KVChaosError as error:
            future.set_exception(error)
        return future

    def _deadline(self, timeout_s: float | None) -> Deadline:
        return Deadline(self._timeout_s if timeout_s is None else timeout_s, self._clock, self._closing)


def _encode(keys: Sequence[ObjectKey]) -> common_pb2.KeyBatch:
    if len(keys) > MAX_BATCH_KEYS:
        raise InvalidKeyError(f"a batch of {len(keys)} keys is over the limit of {MAX_BATCH_KEYS}; split it")
    try:
        return encode_keys(keys)
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidKeyError(f"a key cannot be sent: {error}") from error


def _memory(keys: Sequence[ObjectKey], buffers: Sequence[object]) -> list[memoryview]:
    if len(keys) != len(buffers):
        raise ValueError(f"{len(keys)} keys with {len(buffers)} buffers; expected one for each")
    try:
        return [whole_buffer(buffer) for buffer in buffers]
    except TypeError as error:
        raise ValueError(f"a buffer cannot be used: {error}") from error


def _done(value: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(value)
    return future


def _failed(error: KVChaosError) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future
