"""Rounds of a batch that names keys more than once."""

from __future__ import annotations

from kvchaos_sidecar.backends.repeats import without_repeats


def test_rounds_name_no_key_twice_and_keep_the_order() -> None:
    keys = ["a", "b", "a", "c", "a", "b"]
    assert list(without_repeats(enumerate(keys))) == [[0, 1, 3], [2, 5], [4]]


def test_no_keys_make_no_rounds() -> None:
    assert list(without_repeats([])) == []
