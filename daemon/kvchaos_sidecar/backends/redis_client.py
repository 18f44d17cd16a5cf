"""Calls to one Redis server that end, whatever the server does, and values that move without a copy.

The ``redis`` library connects, authenticates, packs and parses. Only the value of a GET is read past its
parser, straight into memory that a client can be shown.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import redis
from redis.backoff import ExponentialBackoff
from redis.connection import PythonRespSerializer
from redis.retry import Retry

_T = TypeVar("_T")

Argument = bytes | str | int | memoryview
Command = tuple[Argument, ...]

_HEADER_BYTES = 32
_PIPELINE_COMMANDS = 1000
_NEW_LINE = b"\r\n"
_SKIP_BYTES = 1 << 16
_JOINED_BYTES = 6000
"""Parts of commands up to this are joined, as by the library; larger ones are sent as they are."""
_LOST_SERVER = "connection closed by the server"
_NO_ANSWER = "the server fell silent in the middle of an answer"


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where the server is, and as whom to go there."""

    host: str
    port: int
    db: int = 0
    username: str = ""
    password: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.db}"


@dataclass(frozen=True, slots=True)
class RedisTimeouts:
    """How long a call may take."""

    connect_s: float = 2.0
    """For a connection to be made."""
    silence_s: float = 5.0
    """For the next bytes to be taken or sent by the server."""
    attempts: int = 3
    """Tries of a call whose connection breaks. A call that times out is not tried again."""


class ValueConnection(redis.Connection):
    """A connection that can read a value into memory of the caller's."""

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """The answers, in order; a ``redis.ResponseError`` as an answer where a command was refused.

        Raises:
            redis.ConnectionError, redis.TimeoutError: the connection is lost, and closed.
        """
        self.send_packed_command(self.pack_commands(commands))
        return [self._answer() for _ in commands]

    def get_into(self, name: bytes, room: memoryview) -> int | None:
        """Reads the value of a key. Its length in bytes; None when there is no such key.

        The value is in ``room`` exactly when it is as long; a value of another length is skipped.

        Raises:
            redis.ResponseError: the key is refused.
            redis.ConnectionError, redis.TimeoutError: the connection is lost, and closed.
        """
        self.send_packed_command(self.pack_commands([("GET", name)]))
        with self._closing_on_errors():
            is_value = self._peek()[:1] == b"$"
        if not is_value:
            self.read_response(disable_decoding=True)  # raises what the answer says
            return None
        with self._closing_on_errors():
            length = int(self._read_line()[1:])
            if length < 0:
                return None
            if length == len(room):
                self._receive(room)
            else:
                self._skip(length)
            self._skip(len(_NEW_LINE))
        return length

    def _answer(self) -> Any:
        try:
            return self.read_response(disable_decoding=True)
        except redis.ResponseError as error:
            return error

    @property
    def _open_socket(self) -> socket.socket:
        if self._sock is None:
            raise redis.ConnectionError(_LOST_SERVER)
        return self._sock

    def _peek(self) -> bytes:
        seen = self._open_socket.recv(_HEADER_BYTES, socket.MSG_PEEK)
        if not seen:
            raise redis.ConnectionError(_LOST_SERVER)
        return seen

    def _read_line(self) -> bytes:
        line = b""
        while not line.endswith(_NEW_LINE):
            seen = self._peek()
            line += self._open_socket.recv(seen.find(b"\n") + 1 or len(seen))
        return line[: -len(_NEW_LINE)]

    def _receive(self, room: memoryview) -> None:
        received = 0
        while received < len(room):
            count = self._open_socket.recv_into(room[received:])
            if count == 0:
                raise redis.ConnectionError(_LOST_SERVER)
            received += count

    def _skip(self, length: int) -> None:
        scratch = memoryview(bytearray(min(length, _SKIP_BYTES)))
        while length > 0:
            part = scratch[:length]
            self._receive(part)
            length -= len(part)

    @contextmanager
    def _closing_on_errors(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            self.disconnect()
            raise redis.TimeoutError(_NO_ANSWER) from error
        except OSError as error:
            self.disconnect()
            raise redis.ConnectionError(str(error)) from error
        except BaseException:
            self.disconnect()
            raise


class RedisClient:
    """Blocking calls, each on a connection of its own. Thread-safe."""

    def __init__(self, address: RedisAddress, timeouts: RedisTimeouts) -> None:
        """Connects to nothing yet."""
        self.address = address
        self._pool = redis.ConnectionPool(
            connection_class=ValueConnection,
            host=address.host,
            port=address.port,
            db=address.db,
            username=address.username or None,
            password=address.password or None,
            socket_connect_timeout=timeouts.connect_s,
            socket_timeout=timeouts.silence_s,
            socket_keepalive=True,
            protocol=2,
            client_name="kvchaos-sidecar",
            command_packer=PythonRespSerializer(_JOINED_BYTES, _encode),
        )
        self._retry = Retry(
            ExponentialBackoff(cap=0.2, base=0.01), timeouts.attempts - 1, (redis.ConnectionError,)
        )

    def call(self, commands: Sequence[Command]) -> list[Any]:
        """The answers, in order; a ``redis.ResponseError`` as an answer where a command was refused.

        Raises:
            redis.ConnectionError, redis.TimeoutError: the server cannot be reached or does not answer.
        """
        answers: list[Any] = []
        for part in _parts(commands):
            answers += self.with_connection(partial(_ask, commands=part))
        return answers

    def with_connection(self, use: Callable[[ValueConnection], _T]) -> _T:
        """The value of ``use``, called again on a new connection when the one it has breaks."""

        def attempt() -> _T:
            connection = cast(ValueConnection, self._pool.get_connection())
            try:
                return use(connection)
            finally:
                self._pool.release(connection)

        return self._retry.call_with_retry(attempt, lambda error: None)

    def close(self) -> None:
        """Closes every connection. Calls under way fail."""
        self._pool.disconnect()


def _parts(commands: Sequence[Command]) -> Iterator[Sequence[Command]]:
    return (commands[i : i + _PIPELINE_COMMANDS] for i in range(0, len(commands), _PIPELINE_COMMANDS))


def _ask(connection: ValueConnection, commands: Sequence[Command]) -> list[Any]:
    return connection.ask(commands)


def _encode(argument: Argument) -> bytes | memoryview:
    """For the library's own packer, which sends a memoryview as it is.

    The one of hiredis, taken by default where that is installed, copies: stores were a third as fast.
    """
    return argument if isinstance(argument, bytes | memoryview) else str(argument).encode()
