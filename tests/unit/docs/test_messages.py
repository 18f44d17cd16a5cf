"""The messages that the troubleshooting page explains are messages of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.unit.docs.pages import DOCS, ROOT

ANYTHING = "…"
HEADING = re.compile(r"^### `(.+)`$", re.MULTILINE)
MESSAGES = HEADING.findall((DOCS / "troubleshooting.md").read_text())


def texts(path: Path) -> list[str]:
    """Every string in a module; what is formatted into it is left open."""
    tree = ast.parse(path.read_text())
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else ANYTHING for part in node.values]
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(re.sub(r"%[sd]", ANYTHING, node.value))
    return found


@pytest.fixture(scope="module")
def code() -> str:
    """All strings of all packages."""
    modules = [path for folder in ("client", "daemon") for path in (ROOT / folder).rglob("*.py")]
    return "\0".join(text for path in modules for text in texts(path))


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_one_of_the_code(message: str, code: str) -> None:
    parts = [part.strip() for part in message.split(ANYTHING)]
    missing = [part for part in parts if len(part) > 2 and part not in code]
    assert not missing


def test_there_are_messages() -> None:
    assert len(MESSAGES) > 30
