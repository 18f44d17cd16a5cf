"""Where the case files are that more than one project shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]


def shared_file(name: str) -> Path:
    """A file under KVCHAOS_SHARED, or under ``shared`` beside the repository.

    Skips the test when it is missing, but never in CI: there a missing file is a failure.
    """
    folder = Path(os.environ.get("KVCHAOS_SHARED", _REPOSITORY.parent / "shared"))
    path = folder / name
    if path.is_file():
        return path
    message = f"{path} is missing; set KVCHAOS_SHARED to the folder that holds {name}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
