from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import timedelta

import pytest

from kvchaos.cli import values


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (values.ratio, "0", 0.0),
        (values.ratio, "1e-3", 0.001),
        (values.seed, str(-(2**63)), -(2**63)),
        (values.seed, "7", 7),
        (values.count, "0", 0),
        (values.positive_count, "1", 1),
        (values.positions, "3, 5,8", [3, 5, 8]),
        (values.positions, "", []),
        (values.ratios, "0.25,1", [0.25, 1.0]),
        (values.ratios, " ", []),
        (values.duration, "1h30m", timedelta(minutes=90)),
        (values.positive_seconds, "250ms", 0.25),
    ],
)
def test_values_are_read(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "problem"),
    [
        (values.ratio, "1.5", r"1\.5 is not in \[0, 1\]"),
        (values.ratio, "nan", r"nan is not in \[0, 1\]"),
        (values.ratio, "x", r"'x' is not a number in \[0, 1\]"),
        (values.seed, str(2**63), "is not in"),
        (values.seed, "1.0", "'1.0' is not an integer"),
        (values.count, "-1", "-1 is not in"),
        (values.positive_count, "0", "0 is too small; write 1 or more"),
        (values.positions, "1,,2", "'' is not an integer"),
        (values.ratios, "0.5,-0.1", r"-0\.1 is not in \[0, 1\]"),
        (values.duration, "5", "'5' has no unit; write for example 5s"),
        (values.positive_seconds, "0s", "is not between"),
    ],
)
def test_anything_else_is_refused_with_the_fix(
    read: Callable[[str], object], text: str, problem: str
) -> None:
    with pytest.raises(ArgumentTypeError, match=problem):
        read(text)
