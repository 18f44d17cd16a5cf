import pytest

from kvchaos.errors import ConfigError
from kvchaos_sidecar.config.yaml_text import MAX_BYTES, parse_yaml


def problem(data: bytes | str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(data.encode() if isinstance(data, str) else data)
    (only,) = caught.value.problems
    return only


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("on", "on"), ("1:30", "1:30"), ("2020-01-01", "2020-01-01"), ("007", "007"),
        ("1.", 1.0),
        ("<<", "<<"), ("1e-3", 0.001), ("1E5", 100000.0), (".5", 0.5), ("0x1F", 31), ("-7", -7), ("+7", 7),
        ("true", True), ("~", None), ("''", ""), ("'1'", "1"), ("-.inf", float("-inf")), ("", None),
    ],
)  # fmt: skip
def test_scalars_mean_what_they_look_like(text: str, value: object) -> None:
    parsed = parse_yaml(text.encode())
    assert (parsed, type(parsed)) == (value, type(value))


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_yaml(b"\xef\xbb\xbfa: 1") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a: 1\nb: &x 2\n", "line 2: anchor &x;"),
        ("a: *x\n", "line 1: alias *x;"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", "line 2: tag tag:yaml.org,2002:python"),
        ("a: !secret x\n", "line 1: tag !secret;"),
        ("a: 1\n---\nb: 2\n", "line 2: a second document begins;"),
        ("a: 1\nb: {c: 1, c: 2}\n", "line 2: the key c is there twice"),
        ("a: 1\na: 2\n", "line 2: the key a is there twice"),
        ("a: 1\n2: 3\n", "line 2: the key 2 is not text"),
        ("? [a]\n: 1\n", "line 1: the key ['a'] is not text"),
        ("a: 1\n\tb: 2\n", "line 2, column 1: found a tab character"),
        ("a: [1,\n", "line 2, column 1: "),
        ("a: b: c\n", "line 1, column 5: mapping values are not allowed"),
        ("[" * 1000, "line 1: nested more than 32 levels deep;"),
        ("a: " + "9" * 5000, "a number has too many digits"),
        ("a: \x07", "not YAML: "),
    ],
)
def test_what_is_refused_is_named_with_its_line(text: str, start: str) -> None:
    assert problem(text).startswith(start)


def test_an_entity_bomb_is_refused_before_it_is_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert problem("\n".join(lines)).startswith("line 1: anchor &a0;")


def test_binary_is_refused() -> None:
    assert problem(b"\x7fELF\x02\x01\xff") == ("not UTF-8 text (byte 0xff at offset 6); save it as UTF-8")
    assert problem(b"a: \x00").startswith("not YAML: ")


def test_more_than_the_limit_is_refused() -> None:
    assert problem(b"#" * (MAX_BYTES + 1)).startswith("larger than the limit")
    assert parse_yaml(b"#" * MAX_BYTES) is None
