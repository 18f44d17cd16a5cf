"""Giving up."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from kvchaos_blend.cancel import CancelToken
from kvchaos_blend.errors import Cancelled


def test_a_fresh_token_stops_nothing() -> None:
    done: Future[int] = Future()
    done.set_result(3)
    token = CancelToken()
    token.check()
    assert token.wait_for(done) == 3


def test_the_first_reason_counts() -> None:
    token = CancelToken()
    token.cancel("first")
    token.cancel("second")
    with pytest.raises(Cancelled, match="first"):
        token.check()


def test_waiting_ends_when_the_token_is_set() -> None:
    token = CancelToken()
    token.cancel("gave up")
    with pytest.raises(Cancelled, match="gave up"):
        token.wait_for(Future())


def test_a_listener_hears_of_it_also_when_it_comes_late() -> None:
    token, heard = CancelToken(), []
    token.on_cancel(lambda: heard.append("early"))
    token.cancel("x")
    token.on_cancel(lambda: heard.append("late"))
    assert heard == ["early", "late"]
