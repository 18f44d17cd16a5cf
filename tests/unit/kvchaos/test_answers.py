import pytest

from kvchaos.answers import read_result, read_results
from kvchaos.errors import SidecarError
from kvchaos.results import Result
from kvchaos.v1 import common_pb2


def test_every_result_of_the_wire_has_its_mirror() -> None:
    wire = {number for number in common_pb2.Result.values() if number != common_pb2.RESULT_UNSPECIFIED}
    assert wire == set(Result)
    assert all(common_pb2.Result.Name(result) == f"RESULT_{result.name}" for result in Result)


@pytest.mark.parametrize("number", [common_pb2.RESULT_UNSPECIFIED, 4711])
def test_what_is_not_known_is_a_failure(number: int) -> None:
    assert read_result(number) is Result.IO_ERROR


def test_an_answer_for_another_number_of_keys_is_refused() -> None:
    with pytest.raises(SidecarError, match="answered for 1 keys; expected 2"):
        read_results([1], 2)
