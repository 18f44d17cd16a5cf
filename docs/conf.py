"""Sphinx configuration. The reference pages are made from the code each time the site is built."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from docs.generate import write_all, write_fault_pages  # noqa: E402
from kvchaos import __version__  # noqa: E402

write_all(HERE / "_generated")
write_fault_pages(HERE / "faults" / "kinds")

project = "kvchaos"
copyright = "the kvchaos authors, Apache-2.0"
version = release = __version__
language = "en"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_generated"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"kvchaos {version}"
html_static_path = ["_static"]
html_css_files = ["kvchaos.css"]
html_copy_source = False
html_show_sphinx = False
