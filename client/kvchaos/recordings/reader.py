"""Reads a recording: JSON lines, a header first. docs/recording.md describes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvchaos.errors import ConfigError
from kvchaos.keys import ObjectKey
from kvchaos.recordings.batch import canonical_order

FORMAT = 1
"""The version of the format that is read and written."""


@dataclass(frozen=True, slots=True)
class RecordedFault:
    """One rule struck one key of one call."""

    line: int
    """Of the call, in the file."""
    session: int
    """The session's number: they count from 1 in the order in which they are opened."""
    operation: str
    batch: str
    """Identity of the call's keys."""
    nth: int
    """How often the session has made a call of that operation and batch, this one included."""
    place: int
    """The key's place among the keys of the call in ascending order."""
    rule: str
    """The rule that struck."""
    fault: str
    """The fault and its settings, as JSON."""
    chance: float
    """The number in [0, 1) that the fault drew from."""
    key: str
    """Short, for people; empty for a call without keys."""

    @property
    def call(self) -> tuple[int, str, str, int]:
        """What identifies the call."""
        return self.session, self.operation, self.batch, self.nth

    def __str__(self) -> str:
        kind = next(iter(json.loads(self.fault)))
        what = f" on {self.key}" if self.key else ""
        call = f"session {self.session}, {self.operation} number {self.nth} of its keys"
        return f"{self.rule}: {kind}{what}, {call}"


@dataclass(frozen=True, slots=True)
class Recording:
    """What a file holds.

    Attributes:
        header: the facts about the run.
        calls: the lines of calls with faults, by line number, as they stand in the file.
        faults: every fault, in the order of the file.
        warnings: what makes the recording less than whole.
    """

    header: Mapping[str, Any]
    calls: Mapping[int, Mapping[str, Any]]
    faults: Sequence[RecordedFault]
    warnings: Sequence[str] = field(default=())


def read_recording(path: Path) -> Recording:
    """Reads a file.

    Raises:
        ConfigError: it cannot be read, is cut off, or is not a recording; names the line.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            return _read(enumerate(stream, 1))
    except OSError as error:
        raise ConfigError([f"cannot be read: {error.strerror}"], str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError(["not UTF-8 text; this is not a recording"], str(path)) from None
    except ConfigError as error:
        raise ConfigError(error.problems, str(path)) from None


def write_recording(path: Path, recording: Recording, faults: Sequence[RecordedFault]) -> None:
    """Writes a recording of nothing but ``faults`` and their calls. Raises OSError."""
    kept: dict[int, set[tuple[int, str, str]]] = {}
    for fault in faults:
        kept.setdefault(fault.line, set()).add((fault.place, fault.rule, fault.fault))
    lines = [
        recording.header,
        *(_only(recording.calls[line], kept[line]) for line in sorted(kept)),
        {"type": "end"},
    ]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")


def _read(lines: Iterator[tuple[int, str]]) -> Recording:
    number, text = next(lines, (1, ""))
    header = _parse(number, text)
    if header.get("type") != "header":
        raise ConfigError(
            ["line 1: a recording begins with a line of type header; this is another kind of file"]
        )
    if header.get("format") != FORMAT:
        raise ConfigError([f"line 1: format {header.get('format')!r}; this version reads format {FORMAT}"])
    calls: dict[int, Mapping[str, Any]] = {}
    faults: list[RecordedFault] = []
    lost, ended = 0, False
    for number, text in lines:
        line = _parse(number, text)
        kind = line.get("type")
        ended = kind == "end"
        lost += int(line.get("events", 0)) if kind == "lost" else 0
        if kind == "call" and line.get("fired"):
            calls[number] = line
            faults += _faults_of(number, line)
    return Recording(header, calls, faults, _warnings(header, lost, ended))


def _warnings(header: Mapping[str, Any], lost: int, ended: bool) -> Sequence[str]:
    part = header.get("part", 1)
    return [
        *(
            [f"this is part {part} of a recording; what is in earlier parts is not replayed"]
            if part != 1
            else []
        ),
        *([f"{lost} events were not recorded, because the recorder was behind"] if lost else []),
        *(
            []
            if ended
            else ["the recording has no end: the daemon was killed, still runs, or the file was cut"]
        ),
    ]


def _parse(number: int, text: str) -> Mapping[str, Any]:
    try:
        line = json.loads(text)
    except ValueError:
        what = "cut off" if not text.endswith("\n") else "not JSON"
        advice = "remove the line to use what stands before it" if number > 1 else "this is not a recording"
        raise ConfigError([f"line {number}: {what}; {advice}"]) from None
    if not isinstance(line, dict):
        raise ConfigError([f"line {number}: not a JSON object; this is not a recording"])
    return line


def _faults_of(number: int, line: Mapping[str, Any]) -> Iterator[RecordedFault]:
    try:
        keys = [_key(columns) for columns in line["keys"]]
        place_of = _places(keys)
        for fired in line["fired"]:
            for position, chance in zip(fired["positions"], fired["chances"], strict=True):
                yield RecordedFault(
                    number,
                    line["session"],
                    line["op"],
                    line["batch"],
                    line["nth"],
                    place_of[position],
                    fired["rule"],
                    json.dumps(fired["fault"], sort_keys=True),
                    chance,
                    keys[position].short() if keys else "",
                )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ConfigError(
            [f"line {number}: a call that is not whole ({type(error).__name__}: {error})"]
        ) from None


def _key(columns: Sequence[Any]) -> ObjectKey:
    chunk_hash, model_name, kv_rank, object_group_id, cache_salt = columns
    return ObjectKey(bytes.fromhex(chunk_hash), model_name, kv_rank, object_group_id, cache_salt)


def _places(keys: Sequence[ObjectKey]) -> Mapping[int, int]:
    """The place in canonical order of each position; of the only position of a call without keys."""
    order = canonical_order(keys) if keys else [0]
    return {position: place for place, position in enumerate(order)}


def _only(call: Mapping[str, Any], kept: set[tuple[int, str, str]]) -> Mapping[str, Any]:
    """The line of a call with nothing but the kept faults."""
    keys = [_key(columns) for columns in call["keys"]]
    place_of = _places(keys)
    fired = []
    for entry in call["fired"]:
        fault = json.dumps(entry["fault"], sort_keys=True)
        columns = [
            (position, reason, chance)
            for position, reason, chance in zip(
                entry["positions"], entry["reasons"], entry["chances"], strict=True
            )
            if (place_of[position], entry["rule"], fault) in kept
        ]
        if columns:
            positions, reasons, chances = map(list, zip(*columns, strict=True))
            fired.append({**entry, "positions": positions, "reasons": reasons, "chances": chances})
    return {**call, "fired": fired}
