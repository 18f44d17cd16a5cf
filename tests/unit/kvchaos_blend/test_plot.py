"""The report as a picture."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.blend_reports import VERIFICATION, recovery_report

from kvchaos_blend.plot import save_plot

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_picture_is_written(tmp_path: Path) -> None:
    save_plot(recovery_report(), tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(PNG)


def test_a_verified_recovery_shows_its_errors(tmp_path: Path) -> None:
    save_plot(recovery_report(verification=VERIFICATION), tmp_path / "report.svg")
    text = (tmp_path / "report.svg").read_text()
    assert "<svg" in text


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="xyz"):
        save_plot(recovery_report(), tmp_path / "report.xyz")
