"""The pages of the documentation as text, and the code blocks in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One code block."""

    page: Path
    language: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> Sequence[Path]:
    """Every page that people write: the site's, the README and CONTRIBUTING."""
    written = (path for path in DOCS.rglob("*.md") if "_generated" not in path.parts)
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(written)]


def blocks(*languages: str) -> Sequence[Block]:
    """The code blocks in one of the languages, over all pages."""
    return [
        Block(page, match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for page in pages()
        for text in (page.read_text(),)
        for match in _BLOCK.finditer(text)
        if match[1] in languages
    ]


def command_lines(block: Block) -> Iterator[list[str]]:
    """The words of each command in a shell block, without assignments, redirections and what is piped to."""
    pending = ""
    for line in block.text.splitlines():
        pending += line.removesuffix("\\") + ("" if line.endswith("\\") else "\n")
        if line.endswith("\\"):
            continue
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:  # the quotation goes on in the next line
            continue
        pending = ""
        yield _own_words(words)


def _own_words(words: list[str]) -> list[str]:
    end = next((place for place, word in enumerate(words) if re.match(r"\||&|;|\d?>", word)), len(words))
    own = words[:end]
    while own and re.match(r"\w+=", own[0]):
        own.pop(0)
    return own
