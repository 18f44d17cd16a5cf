import select

from lmcache.v1.platform import consume_fd

from kvchaos.lmcache.results_board import ResultsBoard


def signalled(board: ResultsBoard[str]) -> bool:
    return bool(select.select([board.event_fd], [], [], 0)[0])


def test_a_result_is_signalled_and_handed_out_once() -> None:
    board: ResultsBoard[str] = ResultsBoard()
    assert not signalled(board)
    board.post(3, "done")
    assert signalled(board)
    assert board.take(4) is None
    assert board.take(3) == "done"
    assert board.take(3) is None
    board.close()


def test_all_results_are_handed_out_once() -> None:
    board: ResultsBoard[str] = ResultsBoard()
    board.post(1, "one")
    board.post(2, "two")
    assert board.take_all() == {1: "one", 2: "two"}
    assert board.take_all() == {}
    consume_fd(board.event_fd)
    assert not signalled(board)
    board.close()


def test_a_result_after_the_end_is_dropped() -> None:
    board: ResultsBoard[str] = ResultsBoard()
    board.close()
    board.close()
    board.post(1, "late")
    assert board.take_all() == {}
