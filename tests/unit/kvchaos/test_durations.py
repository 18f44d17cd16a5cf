from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvchaos.durations import MAX_DURATION, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300ms", 0.3), ("5m", 300), ("1h30m", 5400), ("1.5s", 1.5), ("1us", 1e-6), ("2d", 172800)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("5", "'5' has no unit; write for example 5s"),
        ("-5", "'-5' has no unit; write for example 5s"),
        ("-5s", "is not a duration"),
        ("5 s", "is not a duration"),
        ("5x", "is not a duration"),
        ("", "is not a duration"),
        ("٣s", "is not a duration"),
        ("0s", "is not between"),
        ("0.1us", "is not between"),
        ("3651d", "is not between"),
        ("9" * 400 + "d", "is not between"),
    ],
)
def test_anything_else_is_refused_with_the_fix(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_duration(text)


@given(st.timedeltas(timedelta(microseconds=1), MAX_DURATION))
def test_what_is_written_reads_back_as_the_same(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
