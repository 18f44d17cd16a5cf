import io
import json
from pathlib import Path

import pytest

from kvchaos.cli.keys_file import read_keys, synthetic_keys
from kvchaos.errors import ConfigError
from kvchaos.keys import MAX_BATCH_KEYS, ObjectKey, check_key

KEY = {"chunk_hash": "00ff", "model_name": "org/model", "kv_rank": 7}


def problems(tmp_path: Path, entries: object) -> tuple[str, ...]:
    path = tmp_path / "keys.json"
    path.write_text(entries if isinstance(entries, str) else json.dumps(entries))
    with pytest.raises(ConfigError) as caught:
        read_keys(str(path))
    assert caught.value.source == str(path)
    return caught.value.problems


def test_keys_are_read_with_the_defaults_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([KEY, {**KEY, "object_group_id": 3, "cache_salt": "a"}]))
    assert read_keys(str(path)) == [
        ObjectKey(b"\x00\xff", "org/model", 7),
        ObjectKey(b"\x00\xff", "org/model", 7, 3, "a"),
    ]


def test_a_dash_means_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps([KEY])))
    assert len(read_keys("-")) == 1


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ("", "not JSON: "),
        ("[" * 100_000, "not JSON: "),
        ({"keys": []}, 'expected a list such as [{"chunk_hash": "00ff", ...}]'),
        ([KEY, 3], "[1]: expected an object with chunk_hash, "),
        ([{**KEY, "chunk_hash": "xy"}], "[0].chunk_hash: 'xy' is not hexadecimal"),
        ([{**KEY, "chunk_hash": ""}], "[0]: chunk_hash has 0 bytes"),
        ([{**KEY, "kv_rank": True}], "[0].kv_rank: true is not an integer"),
        ([{**KEY, "kv_rank": -1}], "[0]: kv_rank -1 is not in"),
        ([{**KEY, "model_name": 3}], "[0].model_name: 3 is not text"),
        ([{**KEY, "model_name": "a@b"}], "[0]: model_name 'a@b' must not contain"),
        ([{**KEY, "salt": "x"}], "[0].salt: unknown; known are chunk_hash, "),
        ([{}], "[0].chunk_hash: missing"),
        ([KEY] * (MAX_BATCH_KEYS + 1), f"{MAX_BATCH_KEYS + 1} keys are over the limit"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(tmp_path: Path, entries: object, problem: str) -> None:
    assert problems(tmp_path, entries)[0].startswith(problem)


def test_text_that_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, '[{"chunk_hash": "00", "model_name": "\\ud800", "kv_rank": 0}]')
    assert problem == "[0].model_name: it is not valid Unicode text"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json: cannot be read: No such file"):
        read_keys(str(tmp_path / "none.json"))


def test_made_up_keys_are_valid_distinct_and_always_the_same() -> None:
    keys = synthetic_keys(50)
    for key in keys:
        check_key(key)
    assert len(set(keys)) == 50
    assert keys[:8] == synthetic_keys(8)
