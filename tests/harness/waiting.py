"""Waiting for what happens beside the test."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 20.0


def eventually(
    condition: Callable[[], bool], what: str = "the condition", timeout_s: float = PATIENCE_S
) -> None:
    """Returns when ``condition`` is true. Raises AssertionError when it never is."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout_s:g} s")
        time.sleep(0.02)
