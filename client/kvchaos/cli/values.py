"""Values on the command line; argparse reports what these refuse, with the argument's name."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from datetime import timedelta

from kvchaos.durations import parse_duration

INT64 = range(-(2**63), 2**63)


def duration(text: str) -> timedelta:
    """``300ms``, ``5m``, ``1h30m``."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def positive_seconds(text: str) -> float:
    """A duration, in seconds."""
    return duration(text).total_seconds()


def ratio(text: str) -> float:
    """A number in [0, 1]."""
    try:
        number = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number in [0, 1]") from None
    if math.isnan(number) or not 0 <= number <= 1:
        raise ArgumentTypeError(f"{text} is not in [0, 1]")
    return number


def seed(text: str) -> int:
    """An integer of 64 bits."""
    number = _integer(text)
    if number not in INT64:
        raise ArgumentTypeError(f"{text} is not in [{INT64.start}, {INT64.stop - 1}]")
    return number


def count(text: str) -> int:
    """An integer that is not negative."""
    number = _integer(text)
    if not 0 <= number < INT64.stop:
        raise ArgumentTypeError(f"{text} is not in [0, {INT64.stop - 1}]")
    return number


def positive_count(text: str) -> int:
    """An integer above 0."""
    number = count(text)
    if number == 0:
        raise ArgumentTypeError("0 is too small; write 1 or more")
    return number


def positions(text: str) -> list[int]:
    """``3,5,8``; empty for none."""
    return [count(part.strip()) for part in text.split(",")] if text.strip() else []


def ratios(text: str) -> list[float]:
    """``0.25,0.5``; empty for none."""
    return [ratio(part.strip()) for part in text.split(",")] if text.strip() else []


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not an integer") from None
