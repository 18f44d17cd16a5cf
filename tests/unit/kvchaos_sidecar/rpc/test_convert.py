import pytest

from kvchaos.results import Result
from kvchaos.v1 import common_pb2
from kvchaos_sidecar.backends.contract import Extent, ReadLease
from kvchaos_sidecar.clock import ManualClock
from kvchaos_sidecar.config.load import validate
from kvchaos_sidecar.errors import InvalidRequest
from kvchaos_sidecar.faults.poison import Poison, PoisonKind
from kvchaos_sidecar.rpc.convert import (
    extents_to_wire,
    faults_to_wire,
    inline_from_wire,
    poison_to_wire,
    results_to_wire,
    sizes_from_wire,
    unique_descriptors,
)
from kvchaos_sidecar.rules.governor import Governor


class Lease(ReadLease):
    def __init__(self, *extent: int) -> None:
        self.extent = Extent(*extent)

    def close(self) -> None:
        pass


def test_one_size_counts_for_the_whole_batch() -> None:
    assert list(sizes_from_wire([7], 3)) == [7, 7, 7]
    assert list(sizes_from_wire([7, 8], 2)) == [7, 8]
    assert list(sizes_from_wire([], 0)) == []
    assert list(sizes_from_wire([7], 0)) == []


@pytest.mark.parametrize("column", [[], [1, 2], [0], [2**63], [1, 2, 0]])
def test_a_size_column_that_does_not_fit_is_refused(column: list[int]) -> None:
    with pytest.raises(InvalidRequest, match="size_bytes"):
        sizes_from_wire(column, 3)


def test_a_transport_must_be_named() -> None:
    assert inline_from_wire(common_pb2.TRANSPORT_INLINE)
    assert not inline_from_wire(common_pb2.TRANSPORT_HANDOFF)
    with pytest.raises(InvalidRequest, match="TRANSPORT_HANDOFF"):
        inline_from_wire(common_pb2.TRANSPORT_UNSPECIFIED)


def test_results_have_the_numbers_of_the_wire() -> None:
    names = [common_pb2.Result.Name(result) for result in results_to_wire(Result)]
    assert names == [f"RESULT_{result.name}" for result in Result]


@pytest.mark.parametrize(
    ("poison", "kind"),
    [
        (Poison(), common_pb2.Poison.KIND_NAN),
        (Poison(PoisonKind.BYTE, 3), common_pb2.Poison.KIND_BYTE),
        (Poison(PoisonKind.LEAVE), common_pb2.Poison.KIND_LEAVE),
    ],
)
def test_every_poison_has_a_form_on_the_wire(poison: Poison, kind: common_pb2.Poison.Kind) -> None:
    message = poison_to_wire(poison)
    assert (message.kind, message.fill) == (kind, poison.fill)


def test_the_faults_in_force_cross_the_wire_whole() -> None:
    faults = {"rate": 0.25, "seed": -3, "gap_indices": [2**40], "gap_tail_ratios": [0.5]}
    backend = {"type": "memory", "capacity_bytes": 1}
    governor = Governor(validate({"version": 1, "backend": backend, "fault_inject": faults}), ManualClock())
    governor.halt()
    message = faults_to_wire(governor.snapshot())
    assert (message.rate, message.seed, message.generation, message.halted) == (0.25, -3, 1, True)
    assert list(message.gap_indices) == [2**40]
    assert list(message.gap_tail_ratios) == [0.5]


def test_a_descriptor_that_holds_several_objects_is_sent_once() -> None:
    leases = {0: Lease(9, 0, 4), 2: Lease(5, 0, 4), 3: Lease(9, 4, 8)}
    sent = unique_descriptors(leases)
    assert sent == [9, 5]
    extents = extents_to_wire(leases, sent)
    assert list(extents.position) == [0, 2, 3]
    assert list(extents.descriptor) == [0, 1, 0]
    assert list(extents.offset) == [0, 0, 4]
    assert list(extents.length) == [4, 4, 8]


def test_inline_extents_name_no_descriptor() -> None:
    extents = extents_to_wire({1: Lease(9, 0, 4)}, ())
    assert list(extents.position) == [1]
    assert list(extents.descriptor) == []
