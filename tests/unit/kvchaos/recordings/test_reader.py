"""Recordings, read and written."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvchaos.errors import ConfigError
from kvchaos.keys import ObjectKey
from kvchaos.recordings.batch import batch_id
from kvchaos.recordings.reader import Recording, read_recording, write_recording

HEADER = {"type": "header", "format": 1, "part": 1, "daemon_version": "1.2"}
END = {"type": "end"}
KEYS = [ObjectKey(bytes([number]) * 8, "org/model", 1) for number in (5, 3, 9)]
"""In ascending order these are the positions 1, 0, 2."""


def fired(rule: str = "gap", positions: tuple[int, ...] = (0, 2)) -> dict[str, Any]:
    return {
        "rule": rule,
        "fault": {"drop": {"poison": "nan"}},
        "positions": list(positions),
        "reasons": ["index"] * len(positions),
        "chances": [position / 10 for position in positions],
    }


def call(*strikes: dict[str, Any], nth: int = 1, keys: list[ObjectKey] = KEYS) -> dict[str, Any]:
    return {
        "type": "call",
        "session": 2,
        "seq": nth,
        "op": "load",
        "keys": [[key[0].hex(), *key[1:]] for key in keys],
        "batch": batch_id(keys),
        "nth": nth,
        "fired": list(strikes),
    }


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    lines = [call(), call(fired(), fired("other", (1,)), nth=2), call(fired(positions=(1,)), nth=3)]
    return read_recording(write(tmp_path / "run.jsonl", HEADER, *lines, END))


def test_faults_are_read_in_order_with_the_places_of_their_keys(recording: Recording) -> None:
    assert [(found.rule, found.nth, found.place, found.chance) for found in recording.faults] == [
        ("gap", 2, 1, 0.0),
        ("gap", 2, 2, 0.2),
        ("other", 2, 0, 0.1),
        ("gap", 3, 0, 0.1),
    ]
    assert recording.faults[0].call == (2, "load", batch_id(KEYS), 2)
    assert str(recording.faults[0]) == "gap: drop on 050505050505, session 2, load number 2 of its keys"
    assert recording.warnings == []


@pytest.mark.parametrize("chosen", [(), (0,), (1, 3), (2,), (0, 1, 2, 3)])
def test_what_is_written_of_a_recording_is_read_again(
    recording: Recording, tmp_path: Path, chosen: tuple[int, ...]
) -> None:
    faults = [recording.faults[index] for index in chosen]
    write_recording(tmp_path / "part.jsonl", recording, faults)
    again = read_recording(tmp_path / "part.jsonl")
    assert [str(found) for found in again.faults] == [str(found) for found in faults]
    assert [(found.call, found.place, found.chance) for found in again.faults] == [
        (found.call, found.place, found.chance) for found in faults
    ]
    assert again.header == recording.header
    assert again.warnings == []


def test_what_is_missing_is_warned_of(tmp_path: Path) -> None:
    lost = {"type": "lost", "events": 3}
    path = write(tmp_path / "run.jsonl", HEADER | {"part": 4}, lost, lost, call())
    assert [warning.partition(";")[0][:33] for warning in read_recording(path).warnings] == [
        "this is part 4 of a recording",
        "6 events were not recorded, becau",
        "the recording has no end: the dae",
    ]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_file_that_is_cut_in_a_line_is_refused_with_its_number(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "run.jsonl", HEADER, call(fired()), call(fired(), nth=2))
    path.write_bytes(path.read_bytes()[: -cut - 1])
    with pytest.raises(ConfigError, match=r"run\.jsonl: line 3: cut off; remove the line to use what"):
        read_recording(path)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in call(fired()).items() if key != name}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1: cut off; this is not a recording"),
        ([[1, 2]], "line 1: not a JSON object"),
        ([call()], "line 1: a recording begins with a line of type header"),
        ([HEADER | {"format": 2}], "line 1: format 2; this version reads format 1"),
        ([HEADER, without("nth")], "line 2: a call that is not whole"),
        ([HEADER, without("keys")], "line 2: a call that is not whole"),
        ([HEADER, call(fired(positions=(7,)))], "line 2: a call that is not whole"),
        ([HEADER, call(fired()) | {"keys": [["zz", "m", 1, 0, ""]]}], "line 2: a call that is not whole"),
    ],
)
def test_what_is_not_a_recording_is_refused_with_the_line(
    tmp_path: Path, lines: list[object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_recording(write(tmp_path / "run.jsonl", *lines))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_recording(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        read_recording(tmp_path / "binary")
