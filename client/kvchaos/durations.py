"""Durations as people write them: ``300ms``, ``5m``, ``1h30m``."""

from __future__ import annotations

import re
from datetime import timedelta

_MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
MAX_DURATION = timedelta(days=3650)

PATTERN = r"^(\d+(\.\d+)?(us|ms|s|m|h|d))+$"
"""The form as a regular expression for JSON Schema."""


def parse_duration(text: str) -> timedelta:
    """The length of time that ``text`` writes out, at least one microsecond and at most ten years.

    Raises:
        ValueError: not of the form ``1h30m``, a unit missing, zero, or longer than ten years.
    """
    if re.fullmatch(r"-?\d+(\.\d+)?", text):
        raise ValueError(f"{text!r} has no unit; write for example {text.lstrip('-')}s")
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write for example 300ms, 5m or 1h30m")
    try:
        duration = timedelta(
            microseconds=sum(float(n) * _MICROSECONDS[unit] for n, unit in _PART.findall(text))
        )
    except OverflowError:
        duration = timedelta.max
    if not timedelta(0) < duration <= MAX_DURATION:
        raise ValueError(f"{text!r} is not between 1us and 3650d")
    return duration


def format_duration(duration: timedelta) -> str:
    """The shortest text that :func:`parse_duration` reads back as ``duration``; ``0s`` for none."""
    rest = duration // timedelta(microseconds=1)
    parts = []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, rest = divmod(rest, _MICROSECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
