"""File names of keys: LMCache's, reversible, and None rather than an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvchaos.keys import MAX_HASH_BYTES, MAX_SALT_CHARS, MAX_UINT32, ObjectKey
from kvchaos_sidecar.backends.filenames import MAX_NAME_BYTES, from_file_name, to_file_name

HASH = bytes(range(16))
HEX = b"000102030405060708090a0b0c0d0e0f"

# Written by LMCache 0.5.6, by fs and fs_native alike.
SEEN_ON_DISK = [
    (ObjectKey(HASH, "m", 0), b"m@0x00000000@0@" + HEX + b".data"),
    (ObjectKey(HASH, "a/b/c", 0x01000100, 10), b"a-SEP-b-SEP-c@0x01000100@a@" + HEX + b".data"),
    (ObjectKey(HASH, "a", 2**32 - 1, 255, "salt"), b"a@0xffffffff@ff@" + HEX + b"@salt.data"),
    (ObjectKey(HASH, "/lead/", 1), b"-SEP-lead-SEP-@0x00000001@0@" + HEX + b".data"),
    (ObjectKey(HASH, "", 1), b"@0x00000001@0@" + HEX + b".data"),
    (ObjectKey(HASH, "..", 1), b"..@0x00000001@0@" + HEX + b".data"),
    (ObjectKey(HASH, "m.data", 1, 0, ".data"), b"m.data@0x00000001@0@" + HEX + b"@.data.data"),
    (
        ObjectKey(HASH, "ünï/ço", 1, 0, "sälz"),
        "ünï-SEP-ço@0x00000001@0@".encode() + HEX + "@sälz.data".encode(),
    ),
]

MODELS = st.text(st.characters(exclude_characters="@\0")) | st.lists(
    st.sampled_from(["/", "-SEP-", "-SEP", "SEP-", "-", "a"]), max_size=12
).map("".join)
KEYS = st.builds(
    ObjectKey,
    st.binary(min_size=1, max_size=MAX_HASH_BYTES),
    MODELS,
    st.integers(0, MAX_UINT32),
    st.integers(0, MAX_UINT32),
    st.text(st.characters(exclude_characters="@/\\\0"), max_size=MAX_SALT_CHARS),
)


@pytest.mark.parametrize(("key", "name"), SEEN_ON_DISK)
def test_names_are_those_that_lmcache_writes(key: ObjectKey, name: bytes) -> None:
    assert to_file_name(key) == name
    assert from_file_name(name) == key


@given(KEYS)
def test_a_key_has_a_name_that_reads_back_or_none(key: ObjectKey) -> None:
    name = to_file_name(key)
    if name is None:
        return
    assert len(name) <= MAX_NAME_BYTES
    assert b"/" not in name
    assert b"\0" not in name
    key_read = from_file_name(name)
    assert key_read is not None
    assert to_file_name(key_read) == name
    if "SEP" not in key.model_name:
        assert key_read == key


@given(
    st.binary(max_size=80) | st.text(max_size=80).map(lambda text: text.encode(errors="replace") + b".data")
)
def test_any_name_is_a_key_of_that_name_or_none(name: bytes) -> None:
    key = from_file_name(name)
    assert key is None or to_file_name(key) == name


def test_a_model_name_with_the_separator_reads_back_with_a_slash_as_in_lmcache() -> None:
    name = to_file_name(ObjectKey(HASH, "a-SEP-b", 1))
    assert name == to_file_name(ObjectKey(HASH, "a/b", 1))
    assert name is not None
    assert from_file_name(name) == ObjectKey(HASH, "a/b", 1)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(ObjectKey(HASH, "m" * 300, 1), id="long"),
        pytest.param(ObjectKey(HASH, "日" * 90, 1), id="long in bytes only"),
        pytest.param(ObjectKey(HASH, "lone \ud800 surrogate", 1), id="not encodable"),
        pytest.param(ObjectKey(HASH, "m", 1, 0, "../../x"), id="salt with a slash"),
        pytest.param(ObjectKey(HASH, "m", 1, 0, "\0"), id="salt with NUL"),
    ],
)
def test_a_key_that_no_file_can_be_named_after_has_no_name(key: ObjectKey) -> None:
    assert to_file_name(key) is None


def test_the_longest_name_is_a_name() -> None:
    shortest = to_file_name(ObjectKey(HASH, "", 1))
    assert shortest is not None
    room = MAX_NAME_BYTES - len(shortest)
    longest = to_file_name(ObjectKey(HASH, "m" * room, 1))
    assert longest is not None
    assert len(longest) == MAX_NAME_BYTES
    assert to_file_name(ObjectKey(HASH, "m" * (room + 1), 1)) is None


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b".data",
        b"notes.txt",
        b"m@0x00000001@0@" + HEX + b".tmp",
        b"m@0x00000001@0@.data",
        b"m@0x1@0@" + HEX + b".data",
        b"m@00000001@0@" + HEX + b".data",
        b"m@0x00000001@00@" + HEX + b".data",
        b"m@0x0000_001@0@" + HEX + b".data",
        b"m@0x00000001@0@" + HEX.upper() + b".data",
        b"m@0x00000001@0@00 01.data",
        b"m@0x00000001@0@zz.data",
        b"m@0x00000001@-1@" + HEX + b".data",
        b"m@0x100000000@0@" + HEX + b".data",
        b"m@0x00000001@0@" + HEX + b"@.data",
        b"m@0x00000001@0@" + HEX + b"@a@b.data",
        b"m@0x00000001@0@" + HEX + b"@" + b"s" * (MAX_SALT_CHARS + 1) + b".data",
        b"\xff@0x00000001@0@" + HEX + b".data",
    ],
)
def test_foreign_names_are_no_keys(name: bytes) -> None:
    assert from_file_name(name) is None
