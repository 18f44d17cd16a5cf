import struct

import pytest

from kvchaos.poison import fill, poison_byte
from kvchaos.v1 import common_pb2


def poison(kind: int, byte: int = 0) -> common_pb2.Poison:
    return common_pb2.Poison(kind=kind, fill=byte)


def test_nan_fills_with_a_byte_that_no_float_format_reads_as_a_number() -> None:
    buffer = memoryview(bytearray(16))
    fill(buffer, poison_byte(poison(common_pb2.Poison.KIND_NAN)))
    assert all(value != value for value in struct.unpack("8e", buffer))
    assert all(value != value for value in struct.unpack("4f", buffer))
    assert all(value != value for value in struct.unpack("2d", buffer))


def test_a_chosen_byte_is_used() -> None:
    assert poison_byte(poison(common_pb2.Poison.KIND_BYTE, 7)) == 7


def test_leave_leaves() -> None:
    assert poison_byte(poison(common_pb2.Poison.KIND_LEAVE)) is None


@pytest.mark.parametrize("kind", [common_pb2.Poison.KIND_UNSPECIFIED, 99])
def test_a_kind_that_is_not_known_spoils_too(kind: int) -> None:
    assert poison_byte(poison(kind)) == 0xFF


def test_neighbours_stay_as_they_are() -> None:
    memory = bytearray(b"." * 30)
    fill(memoryview(memory)[10:20], 0xFF)
    assert bytes(memory) == b"." * 10 + b"\xff" * 10 + b"." * 10


def test_an_empty_buffer_is_no_problem() -> None:
    fill(memoryview(bytearray()), 0xFF)
