"""The demo's end: a real model, real weights, a real sidecar that drops chunks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_recovery_of_the_demo_passes_its_gates_and_gives_one_answer() -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "deploy.demo.blend"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    rows = [line.strip() for line in demo.stdout.splitlines()]
    for picture in ("L L L L R d d d R", "L L L L R L L L R", "L L L R d d R d R", "L L L R L L R L R"):
        assert picture in rows
    assert "FAILED" not in demo.stdout
    assert "every recovery answers, as a full prefill does" in demo.stdout
