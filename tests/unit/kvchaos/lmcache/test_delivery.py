import pytest
from tests.harness.waiting import eventually

from kvchaos.completion import AS_EVER, Completion
from kvchaos.lmcache.delivery import Delivery
from kvchaos.lmcache.results_board import ResultsBoard


@pytest.fixture
def board() -> ResultsBoard[str]:
    return ResultsBoard()


@pytest.fixture
def delivery(board: ResultsBoard[str]) -> Delivery[str]:
    return Delivery(board)


def test_a_result_is_handed_out_once(board: ResultsBoard[str], delivery: Delivery[str]) -> None:
    delivery.deliver(1, "one", AS_EVER)
    assert [board.take(1), board.take(1)] == ["one", None]


def test_a_result_is_handed_out_twice(board: ResultsBoard[str], delivery: Delivery[str]) -> None:
    delivery.deliver(1, "one", Completion(twice=True))
    assert [board.take(1), board.take(1), board.take(1)] == ["one", "one", None]


def test_a_late_result_comes_by_itself(board: ResultsBoard[str], delivery: Delivery[str]) -> None:
    delivery.deliver(1, "one", Completion(late_s=0.02))
    eventually(lambda: board.take(1) == "one", "the late result")
    assert delivery.held == 0


def test_two_results_are_exchanged(board: ResultsBoard[str], delivery: Delivery[str]) -> None:
    delivery.deliver(1, "one", Completion(exchanged=True))
    assert (board.take(1), delivery.held) == (None, 1)
    delivery.deliver(2, "two", Completion(exchanged=True))
    assert (board.take(1), board.take(2), delivery.held) == ("two", "one", 0)


def test_what_is_kept_back_is_released_to_its_own_task(
    board: ResultsBoard[str], delivery: Delivery[str]
) -> None:
    delivery.deliver(1, "one", Completion(late_s=600.0))
    delivery.deliver(2, "two", Completion(exchanged=True))
    delivery.release()
    assert (board.take(1), board.take(2), delivery.held) == ("one", "two", 0)
