"""Measurements as plain data: taken by a part, kept on disk after each case, read by the report."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """What one side needed for one case."""

    case: Mapping[str, Any]
    """What was done, for example ``{"operation": "load", "size_bytes": 65536, "keys": 8}``."""
    side: str
    """Who did it."""
    values: Mapping[str, float]
    """What came of it; the unit is in each name."""


@dataclass
class Results:
    """The rows of one part, saved whenever one is added, so that a run that is stopped keeps them.

    Attributes:
        facts: machine, versions, command and load of the run.
    """

    part: str
    path: Path
    facts: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def add(self, rows: Iterable[Row]) -> None:
        """Keeps rows, in memory and on disk."""
        self.rows += rows
        self.save()

    def save(self) -> None:
        """Writes the file anew, whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        document = {"part": self.part, "facts": self.facts, "rows": [asdict(row) for row in self.rows]}
        temporary = self.path.with_suffix(".part")
        temporary.write_text(json.dumps(document, indent=1))
        temporary.replace(self.path)

    @classmethod
    def read(cls, path: Path) -> Results:
        """The results of an earlier run. Raises FileNotFoundError when there are none."""
        document = json.loads(path.read_text())
        rows = [Row(**row) for row in document["rows"]]
        return cls(document["part"], path, document["facts"], rows)

    def value(self, side: str, name: str, **case: Any) -> float | None:
        """One value, by side and (at least) those fields of the case; None when it was not measured."""
        for row in self.rows:
            if row.side == side and case.items() <= row.case.items():
                return row.values.get(name)
        return None

    def ratio(self, side: str, baseline: str, **case: Any) -> float | None:
        """How many times faster than ``baseline`` a side was, by median seconds; None when one is missing."""
        ours, theirs = (self.value(name, "median_s", **case) for name in (side, baseline))
        return None if ours is None or theirs is None else theirs / ours

    def distinct(self, name: str) -> list[Any]:
        """The values that a field of the case takes, in order of appearance."""
        return list(dict.fromkeys(row.case[name] for row in self.rows if name in row.case))


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Median and quartiles of some durations."""
    low, middle, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else [seconds[0]] * 3
    return {"median_s": middle, "low_s": low, "high_s": high, "rounds": len(seconds)}
