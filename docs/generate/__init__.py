"""The parts of the reference that are made from the code: included by the pages in ``docs/reference``."""

from __future__ import annotations

from pathlib import Path

from docs.generate.commands import command_reference
from docs.generate.configuration import configuration_reference
from docs.generate.faults import fault_pages
from docs.generate.metrics import metrics_reference
from docs.generate.plugin import plugin_reference
from docs.generate.protocol import read_protocol


def write_all(directory: Path) -> None:
    """Writes every part into ``directory``, which is made unless it exists."""
    protocol = read_protocol()
    parts = {
        "commands": command_reference(),
        "configuration": configuration_reference(),
        "blend": protocol.reference(lambda name: name == "blend"),
        "control": protocol.reference(lambda name: name == "control"),
        "metrics": metrics_reference(),
        "plugin": plugin_reference(),
        "protocol": protocol.reference(lambda name: name not in ("blend", "control")),
    }
    directory.mkdir(exist_ok=True)
    for name, text in parts.items():
        _write_if_changed(directory / f"{name}.md", text)


def write_fault_pages(directory: Path) -> None:
    """Writes a page for each kind of fault into ``directory``, which is made unless it exists."""
    directory.mkdir(exist_ok=True)
    for kind, page in fault_pages().items():
        _write_if_changed(directory / f"{kind}.md", page)


def _write_if_changed(path: Path, text: str) -> None:
    """Sphinx builds a page again when the time of a part changes."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
