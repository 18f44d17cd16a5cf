import pytest

from kvchaos.errors import InvalidKeyError, SidecarError
from kvchaos.keys import ObjectKey, encode_keys
from kvchaos.reports import Deleted, FaultsInForce, read_deleted, read_faults, read_page, read_usage
from kvchaos.results import Result
from kvchaos.v1 import cache_pb2, common_pb2

KEYS = [ObjectKey(b"a", "m", 1), ObjectKey(b"b", "m", 1)]


def test_every_field_of_the_faults_is_read() -> None:
    message = common_pb2.FaultInject(
        rate=0.5,
        seed=-1,
        gap_indices=[2],
        gap_tail_ratios=[0.25],
        generation=9,
        halted=True,
        rules=["slow"],
    )
    assert len(message.ListFields()) == len(common_pb2.FaultInject.DESCRIPTOR.fields)
    assert read_faults(message) == FaultsInForce(0.5, -1, (2,), (0.25,), 9, True, ("slow",))


def test_a_delete_is_read_by_key() -> None:
    message = cache_pb2.DeleteResponse(
        results=[common_pb2.RESULT_OK, common_pb2.RESULT_NOT_FOUND], freed_bytes=[5, 0]
    )
    assert read_deleted(message, 2) == [Deleted(Result.OK, 5), Deleted(Result.NOT_FOUND, 0)]


@pytest.mark.parametrize(("results", "freed"), [([1], [1]), ([1, 1], [1]), ([1], [1, 1])])
def test_a_delete_of_another_number_of_keys_is_refused(results: list[int], freed: list[int]) -> None:
    with pytest.raises(SidecarError, match="expected 2"):
        read_deleted(cache_pb2.DeleteResponse(results=results, freed_bytes=freed), 2)


def test_a_page_pairs_keys_and_sizes() -> None:
    message = cache_pb2.ListKeysResponse(keys=encode_keys(KEYS), size_bytes=[1, 2], next_cursor="on")
    page = read_page(message)
    assert page.entries == ((KEYS[0], 1), (KEYS[1], 2))
    assert page.next_cursor == "on"


def test_a_page_that_does_not_pair_up_is_refused() -> None:
    with pytest.raises(SidecarError, match="2 keys with 1 sizes"):
        read_page(cache_pb2.ListKeysResponse(keys=encode_keys(KEYS), size_bytes=[1]))


def test_a_page_with_a_bad_key_is_refused() -> None:
    bad = encode_keys([ObjectKey(b"a", "m@n", 1)])
    with pytest.raises(InvalidKeyError, match="model_name"):
        read_page(cache_pb2.ListKeysResponse(keys=bad, size_bytes=[1]))


def test_usage_cannot_be_changed_by_who_reads_it() -> None:
    usage = read_usage(cache_pb2.GetUsageResponse(total_bytes=3, bytes_by_cache_salt={"a": 3}))
    assert dict(usage.bytes_by_cache_salt) == {"a": 3}
    with pytest.raises(TypeError):
        usage.bytes_by_cache_salt["a"] = 4  # type: ignore[index]
