"""What to write instead of a name that is not known."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def nearest(name: str, known: Sequence[str]) -> str:
    """The nearest known name, or all of them."""
    lower = {known_name.lower(): known_name for known_name in known}
    found = get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    return f"did you mean {lower[found[0]]}?" if found else f"known are {', '.join(known) or 'none'}"
