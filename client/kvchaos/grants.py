"""Checking what a daemon grants before anybody acts on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvchaos.errors import SidecarError
from kvchaos.results import Result
from kvchaos.v1 import cache_pb2, common_pb2


class Grant(NamedTuple):
    """Permission to move the bytes of one object."""

    position: int
    """Position of the key in the batch."""
    descriptor: int
    """Which of the batch's descriptors holds it; 0 for inline transport."""
    offset: int
    length: int


def read_grants(
    response: cache_pb2.LoadResponse | cache_pb2.PrepareStoreResponse,
    results: Sequence[Result],
    transport: common_pb2.Transport,
) -> list[Grant]:
    """The grants of a batch, in order.

    Args:
        results: the outcome of each key; exactly those that are OK must have a grant.

    Raises:
        SidecarError: the answer contradicts itself.
    """
    extents = response.extents
    count = len(extents.position)
    by_descriptor = transport == common_pb2.TRANSPORT_HANDOFF
    descriptors = list(extents.descriptor) if by_descriptor else [0] * count
    if not len(descriptors) == len(extents.offset) == len(extents.length) == count:
        raise SidecarError("the daemon's grants have columns of different lengths")
    if list(extents.position) != [place for place, result in enumerate(results) if result is Result.OK]:
        raise SidecarError("the daemon's grants are not those of the keys it calls OK")
    if by_descriptor and any(number >= response.descriptor_count for number in descriptors):
        raise SidecarError(f"a grant names a descriptor beyond the {response.descriptor_count} sent")
    return list(map(Grant, extents.position, descriptors, extents.offset, extents.length))


def fit(grants: Sequence[Grant], buffers: Sequence[memoryview]) -> tuple[list[Grant], dict[int, Result]]:
    """The grants that are exactly as long as their buffer, and the failures of the others by position."""
    fitting = [grant for grant in grants if grant.length == buffers[grant.position].nbytes]
    if len(fitting) == len(grants):
        return fitting, {}
    misfits = {grant.position for grant in grants} - {grant.position for grant in fitting}
    return fitting, dict.fromkeys(misfits, Result.SIZE_MISMATCH)
