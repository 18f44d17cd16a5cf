"""Chunks on their way, over all ranks."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from kvchaos.errors import SidecarUnavailable
from kvchaos.results import Result
from kvchaos_blend.arrivals import Arrivals
from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.errors import Cancelled


def test_a_chunk_has_arrived_when_every_ranks_share_has() -> None:
    cancel = CancelToken()
    arrivals = Arrivals(2, 2, cancel)
    for rank in range(2):
        arrivals.listener(rank)(0, Result.OK)
    arrivals.wait_for(0)
    assert arrivals.failure(0) is None
    arrivals.listener(0)(1, Result.OK)
    cancel.cancel("nobody will send the other share")
    with pytest.raises(Cancelled):
        arrivals.wait_for(1)


def test_one_failed_share_fails_the_chunk() -> None:
    arrivals = Arrivals(1, 2, CancelToken())
    arrivals.listener(0)(0, Result.OK)
    arrivals.listener(1)(0, Result.DROPPED)
    assert arrivals.failure(0) is Result.DROPPED
    assert arrivals.is_partial(0)


def test_a_chunk_that_failed_everywhere_is_not_partial() -> None:
    arrivals = Arrivals(1, 2, CancelToken())
    for rank in range(2):
        arrivals.listener(rank)(0, Result.DROPPED)
    assert not arrivals.is_partial(0)


def test_the_first_served_chunk_says_that_all_refusals_are_known() -> None:
    cancel = CancelToken()
    arrivals = Arrivals(3, 1, cancel)
    arrivals.listener(0)(1, Result.DROPPED)
    arrivals.listener(0)(0, Result.OK)
    arrivals.wait_until_judged()
    assert arrivals.failure(1) is Result.DROPPED


def test_a_load_that_tells_nothing_on_the_way_is_known_at_its_end() -> None:
    load: Future[list[Result]] = Future()
    arrivals = Arrivals(2, 1, CancelToken())
    arrivals.follow(0, load)
    load.set_result([Result.OK, Result.IO_ERROR])
    arrivals.wait_until_judged()
    arrivals.wait_for_all()
    assert (arrivals.failure(0), arrivals.failure(1)) == (None, Result.IO_ERROR)


def test_a_load_that_fails_as_a_whole_leaves_what_had_arrived() -> None:
    load: Future[list[Result]] = Future()
    arrivals = Arrivals(2, 1, CancelToken())
    arrivals.follow(0, load)
    arrivals.listener(0)(0, Result.OK)
    load.set_exception(SidecarUnavailable("gone"))
    arrivals.wait_for_all()
    assert (arrivals.failure(0), arrivals.failure(1)) == (None, Result.UNAVAILABLE)
    assert arrivals.trouble == "gone"
