"""Pieces on the wire, against protobuf's own reading and writing of the same messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvchaos.pieces import (
    Piece,
    WritePiece,
    decode_piece,
    decode_write_piece,
    encode_piece,
    encode_write_piece,
)
from kvchaos.v1 import cache_pb2

POSITIONS = st.integers(0, 2**32 - 1)
OFFSETS = st.integers(0, 2**64 - 1)
DATA = st.binary(max_size=300)


@given(POSITIONS, DATA, st.booleans(), st.sampled_from([0, 5]))
def test_a_piece_is_what_protobuf_reads_and_writes(
    position: int, data: bytes, last: bool, failure: int
) -> None:
    message = cache_pb2.Piece(position=position, data=data, last=last, failure=failure)  # type: ignore[arg-type]
    piece = Piece(position, data, last, failure)
    assert cache_pb2.Piece.FromString(encode_piece(piece)) == message
    assert decode_piece(message.SerializeToString()) == piece


@given(POSITIONS, OFFSETS, DATA, st.text(max_size=40), OFFSETS)
def test_a_piece_of_a_store_is_what_protobuf_reads_and_writes(
    position: int, offset: int, data: bytes, session_id: str, request_id: int
) -> None:
    message = cache_pb2.WritePiece(
        session_id=session_id, request_id=request_id, position=position, offset=offset, data=data
    )
    piece = WritePiece(position, offset, data, session_id, request_id)
    assert cache_pb2.WritePiece.FromString(encode_write_piece(piece)) == message
    assert decode_write_piece(message.SerializeToString()) == piece


def test_data_is_a_view_of_the_message_that_came() -> None:
    message = encode_piece(Piece(1, bytes(5000), last=True))
    data = decode_piece(message).data
    assert isinstance(data, memoryview)
    assert data.obj is message


@pytest.mark.parametrize(
    "unknown",
    [b"\x78\x96\x01", b"\x79" + bytes(8), b"\x7a\x02ab", b"\x7d" + bytes(4)],
    ids=lambda field: field.hex(),
)
def test_fields_of_a_later_protocol_are_passed_over(unknown: bytes) -> None:
    message = unknown + encode_piece(Piece(7, b"data", last=True)) + unknown
    assert decode_piece(message) == Piece(7, b"data", last=True)


@pytest.mark.parametrize(
    "message", [b"\x12", b"\x12\x05abcd", b"\x08\xff", b"\x0b", b"\x08" + b"\xff" * 11, b"\x12\x80"]
)
def test_a_malformed_message_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match="of a piece"):
        decode_piece(message)
