"""Tables, colours and JSON on the standard output."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from enum import StrEnum
from typing import IO, Any

NOTHING = "-"


class Colour(StrEnum):
    """Terminal colours by meaning."""

    GOOD = "32"
    WARNING = "33"
    BAD = "31"
    HEADING = "1"


class Output:
    """Writes for a person, or JSON when asked to."""

    def __init__(self, stream: IO[str], as_json: bool) -> None:
        self._stream = stream
        self.as_json = as_json
        self._coloured = stream.isatty() and not os.environ.get("NO_COLOR")

    def line(self, text: str = "") -> None:
        """One line of text."""
        print(text, file=self._stream, flush=True)

    def json(self, value: Any) -> None:
        """One JSON document, indented."""
        self.line(json.dumps(value, indent=2, ensure_ascii=False))

    def json_line(self, value: Any) -> None:
        """One JSON document on a line of its own."""
        self.line(json.dumps(value, ensure_ascii=False))

    def coloured(self, text: str, colour: Colour) -> str:
        """The text in a colour, on a terminal that wants colours."""
        return f"\033[{colour}m{text}\033[0m" if self._coloured else text

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Rows under headings, in aligned columns."""
        cells = [[_cell(value) for value in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
        self.line(self.coloured(_aligned(headings, widths), Colour.HEADING))
        for row in cells:
            self.line(_aligned(row, widths))

    def row(self, values: Sequence[object], widths: Sequence[int]) -> None:
        """One row of a table whose rows are not all known yet."""
        self.line(_aligned([_cell(value) for value in values], widths))

    def pairs(self, pairs: Sequence[tuple[str, object]]) -> None:
        """Names and values, a pair on each line."""
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            self.line(f"{name:<{width}}  {_cell(value)}".rstrip())


def _cell(value: object) -> str:
    text = str(value)
    return " ".join(text.split()) if text else NOTHING


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
