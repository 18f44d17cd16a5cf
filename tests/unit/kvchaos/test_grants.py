from collections.abc import Sequence

import pytest

from kvchaos.errors import SidecarError
from kvchaos.grants import Grant, fit, read_grants
from kvchaos.results import Result
from kvchaos.v1 import cache_pb2, common_pb2

HANDOFF = common_pb2.TRANSPORT_HANDOFF
INLINE = common_pb2.TRANSPORT_INLINE
RESULTS = [Result.OK, Result.DROPPED, Result.OK]


def response(
    position: Sequence[int],
    descriptor: Sequence[int],
    offset: Sequence[int],
    length: Sequence[int],
    count: int,
) -> cache_pb2.LoadResponse:
    extents = cache_pb2.Extents(position=position, descriptor=descriptor, offset=offset, length=length)
    return cache_pb2.LoadResponse(extents=extents, descriptor_count=count)


def test_grants_are_read_in_order() -> None:
    granted = read_grants(response([0, 2], [0, 1], [0, 8], [4, 5], 2), RESULTS, HANDOFF)
    assert granted == [Grant(0, 0, 0, 4), Grant(2, 1, 8, 5)]


def test_inline_grants_name_no_descriptor() -> None:
    assert read_grants(response([0, 2], [], [0, 0], [4, 5], 0), RESULTS, INLINE)[1] == Grant(2, 0, 0, 5)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (response([0, 2], [0], [0, 0], [4, 5], 2), "columns"),
        (response([0, 2], [0, 1], [0], [4, 5], 2), "columns"),
        (response([0, 2], [0, 1], [0, 0], [4], 2), "columns"),
        (response([0], [0], [0], [4], 1), "not those"),
        (response([0, 1, 2], [0, 1, 2], [0, 0, 0], [4, 4, 4], 3), "not those"),
        (response([2, 0], [0, 1], [0, 0], [4, 4], 2), "not those"),
        (response([0, 99], [0, 1], [0, 0], [4, 4], 2), "not those"),
        (response([0, 2], [0, 2], [0, 0], [4, 4], 2), "beyond the 2 sent"),
    ],
)
def test_an_answer_that_contradicts_itself_is_refused(bad: cache_pb2.LoadResponse, message: str) -> None:
    with pytest.raises(SidecarError, match=message):
        read_grants(bad, RESULTS, HANDOFF)


def test_a_grant_of_another_length_than_its_buffer_does_not_fit() -> None:
    buffers = [memoryview(bytearray(4)), memoryview(bytearray(4))]
    fitting, misfits = fit([Grant(0, 0, 0, 4), Grant(1, 1, 0, 5)], buffers)
    assert fitting == [Grant(0, 0, 0, 4)]
    assert misfits == {1: Result.SIZE_MISMATCH}
