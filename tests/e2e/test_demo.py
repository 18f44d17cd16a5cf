"""The demo is the main job on real input: it must hold, and say so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_every_step_of_the_demo_holds() -> None:
    """Four lookups of a prompt of 8 chunks; what was dropped is missing, what was served is intact."""
    demo = subprocess.run(
        [sys.executable, "-m", "deploy.demo"], cwd=ROOT, capture_output=True, text=True, timeout=110
    )

    assert demo.returncode == 0, demo.stdout + demo.stderr
    cells = [
        re.split(r"\s*│\s*", line.strip("│ ")) for line in demo.stdout.splitlines() if line.startswith("│")
    ]
    outcomes = [(asked, dropped, served, intact) for _, _, asked, dropped, served, intact in cells]
    assert outcomes == [
        ("8", "1", "4", "yes"),
        ("8", "0", "8", "yes"),
        ("8", "1", "2", "yes"),
        ("8", "0", "8", "yes"),
    ]
    assert 'kvchaos_drops_total{reason="tail_ratio",rule="fault_inject"} 1.0' in demo.stdout
    assert 'kvchaos_drops_total{reason="index",rule="fault_inject"} 1.0' in demo.stdout
