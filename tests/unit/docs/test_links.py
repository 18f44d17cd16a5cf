"""Links of the pages that are not part of the site lead somewhere; Sphinx checks the others."""

from __future__ import annotations

import re

import pytest
from tests.unit.docs.pages import ROOT

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_relative_link_leads_to_a_file(name: str) -> None:
    targets = [target for target in LINK.findall((ROOT / name).read_text()) if "://" not in target]
    missing = [target for target in targets if not (ROOT / target).exists()]
    assert not missing
