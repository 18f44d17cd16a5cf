"""Reading values past the library's parser, from a server that answers in pieces, or wrong, or not at all."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
import redis

from kvchaos_sidecar.backends.redis_client import RedisAddress, RedisClient, RedisTimeouts

SILENT_FROM_HERE = b""


class ScriptedServer:
    """Greets each connection, and answers its GETs one after the other with the pieces of its script.

    After the last answer of a script it closes the connection.
    """

    def __init__(self, *scripts: Sequence[Sequence[bytes]]) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._scripts = scripts
        self.port: int = self._socket.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        for script in self._scripts:
            connection, _ = self._socket.accept()
            self.connections += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection:
                for pieces in script:
                    while b"GET" not in connection.recv(65536):
                        connection.sendall(b"+OK\r\n")
                    for piece in pieces:
                        connection.sendall(piece)
                        threading.Event().wait(0.02)
                        if piece is SILENT_FROM_HERE:
                            connection.recv(65536)


@contextmanager
def scripted(*scripts: Sequence[Sequence[bytes]]) -> Iterator[tuple[ScriptedServer, RedisClient]]:
    server = ScriptedServer(*scripts)
    timeouts = RedisTimeouts(connect_s=5.0, silence_s=0.5, attempts=3)
    client = RedisClient(RedisAddress("127.0.0.1", server.port), timeouts)
    try:
        yield server, client
    finally:
        client.close()
        server.close()


def get(client: RedisClient, size: int) -> tuple[int | None, bytes]:
    room = bytearray(size)
    length = client.with_connection(lambda connection: connection.get_into(b"key", memoryview(room)))
    return length, bytes(room)


@pytest.mark.parametrize(
    "pieces",
    [
        [b"$5\r\nbytes\r\n"],
        [b"$", b"5", b"\r", b"\n", b"by", b"tes", b"\r", b"\n"],
        [b"$5\r\nbytes", b"\r\n"],
        [b"$5\r\nbytes\r", b"\n"],
    ],
)
def test_a_value_in_any_pieces(pieces: Sequence[bytes]) -> None:
    with scripted([pieces, [b"$-1\r\n"]]) as (_, client):
        assert get(client, 5) == (5, b"bytes")
        assert get(client, 5) == (None, b"\0" * 5)


@pytest.mark.parametrize("value", [b"", b"byte", b"bytes!", b"$-1\r\n+OK\r\n", b"x" * 300_000])
def test_a_value_of_another_length_is_skipped_and_the_next_is_read(value: bytes) -> None:
    answer = b"$%d\r\n%b\r\n" % (len(value), value)
    with scripted([[answer], [b"$5\r\nbytes\r\n"]]) as (server, client):
        assert get(client, 5) == (len(value), b"\0" * 5)
        assert get(client, 5) == (5, b"bytes")
        assert server.connections == 1


def test_no_value_in_pieces() -> None:
    with scripted([[b"$", b"-1", b"\r\n"]]) as (_, client):
        assert get(client, 5) == (None, b"\0" * 5)


def test_an_error_is_raised_and_the_connection_stays_good() -> None:
    refusal = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
    with scripted([[refusal], [b"$5\r\nbytes\r\n"]]) as (server, client):
        with pytest.raises(redis.ResponseError, match="wrong kind"):
            get(client, 5)
        assert get(client, 5) == (5, b"bytes")
        assert server.connections == 1


def test_a_connection_that_breaks_in_a_value_is_made_again() -> None:
    with scripted([[b"$5\r\nby"]], [[b"$5\r\nbytes\r\n"]]) as (server, client):
        assert get(client, 5) == (5, b"bytes")
        assert server.connections == 2


def test_a_connection_that_keeps_breaking_is_given_up() -> None:
    with scripted(*[[[b"$5\r\nby"]]] * 5) as (server, client):
        with pytest.raises(redis.ConnectionError):
            get(client, 5)
        assert server.connections == 3


def test_a_server_that_falls_silent_is_not_asked_again() -> None:
    with scripted([[SILENT_FROM_HERE]], [[SILENT_FROM_HERE]]) as (server, client):
        with pytest.raises(redis.TimeoutError):
            get(client, 5)
        assert server.connections == 1


def test_a_server_that_falls_silent_in_a_value_is_given_up() -> None:
    with scripted([[b"$5\r\nby", SILENT_FROM_HERE]]) as (server, client):
        with pytest.raises(redis.TimeoutError, match="middle of an answer"):
            get(client, 5)
        assert server.connections == 1
