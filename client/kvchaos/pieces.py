"""Pieces of inline transport on the wire, without the copies that a protobuf object makes of its bytes.

On the wire a piece is the ``Piece`` or ``WritePiece`` of ``cache.proto``, so any gRPC client can take part.
Here its ``data`` is written behind the other fields, and read as a view of the message that came.
"""

from __future__ import annotations

from typing import NamedTuple

import grpc

from kvchaos.v1 import cache_pb2
from kvchaos.v1.cache_pb2_grpc import L2CacheStub

SERVICE = "kvchaos.v1.L2Cache"

Data = bytes | memoryview

_VARINT, _FIXED_64, _COUNTED, _FIXED_32 = 0, 1, 2, 5
"""Wire types of protobuf's encoding (https://protobuf.dev/programming-guides/encoding)."""
_MAX_VARINT_BYTES = 10


class Piece(NamedTuple):
    """A run of bytes of a load; fields as in ``cache.proto``."""

    position: int
    data: Data = b""
    last: bool = False
    failure: int = 0


class WritePiece(NamedTuple):
    """A run of bytes of a store; fields as in ``cache.proto``."""

    position: int
    offset: int
    data: Data
    session_id: str = ""
    request_id: int = 0


class PieceStub(L2CacheStub):
    """The stub of the cache service, with :class:`Piece` and :class:`WritePiece` in its byte streams."""

    def __init__(self, channel: grpc.Channel) -> None:
        super().__init__(channel)  # type: ignore[no-untyped-call]  # generated
        self.ReadExtents = channel.unary_stream(
            f"/{SERVICE}/ReadExtents",
            request_serializer=cache_pb2.ReadExtentsRequest.SerializeToString,
            response_deserializer=decode_piece,
        )
        self.WriteExtents = channel.stream_unary(
            f"/{SERVICE}/WriteExtents",
            request_serializer=encode_write_piece,
            response_deserializer=cache_pb2.WriteExtentsResponse.FromString,
        )


def encode_piece(piece: Piece) -> bytes:
    """The message for a piece."""
    head = cache_pb2.Piece(position=piece.position, last=piece.last, failure=piece.failure)  # type: ignore[arg-type]
    return _join(head.SerializeToString(), cache_pb2.Piece.DATA_FIELD_NUMBER, piece.data)


def decode_piece(message: bytes) -> Piece:
    """The piece in a message; its data is a view of it. Raises ValueError when it is malformed."""
    rest, data = _split(message, cache_pb2.Piece.DATA_FIELD_NUMBER)
    head = cache_pb2.Piece.FromString(rest)
    return Piece(head.position, data, head.last, head.failure)


def encode_write_piece(piece: WritePiece) -> bytes:
    """The message for a piece of a store."""
    head = cache_pb2.WritePiece(
        session_id=piece.session_id,
        request_id=piece.request_id,
        position=piece.position,
        offset=piece.offset,
    )
    return _join(head.SerializeToString(), cache_pb2.WritePiece.DATA_FIELD_NUMBER, piece.data)


def decode_write_piece(message: bytes) -> WritePiece:
    """The piece in a message; its data is a view of it. Raises ValueError when it is malformed."""
    rest, data = _split(message, cache_pb2.WritePiece.DATA_FIELD_NUMBER)
    head = cache_pb2.WritePiece.FromString(rest)
    return WritePiece(head.position, head.offset, data, head.session_id, head.request_id)


def _join(head: bytes, number: int, data: Data) -> bytes:
    if not data:
        return head
    return b"".join((head, _varint(number << 3 | _COUNTED), _varint(len(data)), data))


def _split(message: bytes, number: int) -> tuple[bytes, Data]:
    """The message without its field ``number``, and the bytes of that field (the last one, if repeated)."""
    view, rest, data = memoryview(message), b"", memoryview(b"")
    start = 0
    while start < len(message):
        tag, body = _read_varint(message, start)
        end = _end_of_field(message, tag & 7, body)
        if tag == number << 3 | _COUNTED:
            _, body = _read_varint(message, body)
            data = view[body:end]
        else:
            rest += view[start:end]
        start = end
    return rest, data


def _end_of_field(message: bytes, wire_type: int, start: int) -> int:
    if wire_type == _VARINT:
        return _read_varint(message, start)[1]
    if wire_type == _COUNTED:
        length, start = _read_varint(message, start)
    elif wire_type in (_FIXED_64, _FIXED_32):
        length = 8 if wire_type == _FIXED_64 else 4
    else:
        raise ValueError(f"byte {start} of a piece: wire type {wire_type} is unknown")
    if start + length > len(message):
        raise ValueError(f"byte {start} of a piece: a field of {length} bytes goes past the end")
    return start + length


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _read_varint(message: bytes, start: int) -> tuple[int, int]:
    """The number at ``start``, and where the next field begins."""
    number = 0
    for index, byte in enumerate(message[start : start + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, start + index + 1
    raise ValueError(f"byte {start} of a piece: a number does not end")
