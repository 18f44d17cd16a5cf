"""Giving up: one token per request, asked between steps and waited for beside other things."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import suppress
from typing import Any, TypeVar

from kvchaos_blend.errors import Cancelled

T = TypeVar("T")


class CancelToken:
    """Set once, by any thread."""

    def __init__(self) -> None:
        self._given_up: Future[str] = Future()

    def cancel(self, reason: str) -> None:
        """Ends the request at its next step. Only the first reason counts."""
        with suppress(InvalidStateError):
            self._given_up.set_result(reason)

    @property
    def is_set(self) -> bool:
        """Whether the caller gave up."""
        return self._given_up.done()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Has ``callback`` called when the token is set, or at once when it is."""
        self._given_up.add_done_callback(lambda _: callback())

    def check(self) -> None:
        """Raises Cancelled, with the reason, when the token is set."""
        if self.is_set:
            raise Cancelled(self._given_up.result())

    def wait_for(self, future: Future[T]) -> T:
        """The future's result. Raises Cancelled when the token is set first."""
        pending: set[Future[Any]] = {future, self._given_up}
        wait(pending, return_when=FIRST_COMPLETED)
        self.check()
        return future.result()
