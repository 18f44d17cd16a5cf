"""Markdown from plain values."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SPECIAL = re.compile(r"([\\*_<>\[\]|#])")


def text(words: str) -> str:
    """Prose on one line, with nothing in it that Markdown would take for markup but `code`."""
    pieces = re.split(r"(``?[^`]+``?)", " ".join(words.split()))
    return "".join(_code_piece(piece) if piece.startswith("`") else _escaped(piece) for piece in pieces)


def sentence(words: str) -> str:
    """Prose as a sentence: with a capital, unless it begins with a literal, and a full stop."""
    if not words:
        return ""
    first = words.split()[0]
    return text((words[:1].upper() + words[1:] if first.isalpha() else words) + ".")


def code(words: str) -> str:
    """Words as code, on one line."""
    return f"`{words}`"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; cells are Markdown already."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines) + "\n"


def block(words: str, language: str) -> str:
    """A code block."""
    return f"```{language}\n{words.rstrip()}\n```\n\n"


def target(name: str) -> str:
    """A place that ``[...](#name)`` leads to, from any page."""
    return f"({name})=\n"


def _code_piece(piece: str) -> str:
    return code(piece.strip("`"))


def _escaped(piece: str) -> str:
    return _SPECIAL.sub(r"\\\1", piece)


def _cell(cell: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", cell)
