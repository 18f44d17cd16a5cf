"""Redis keys, held to those that LMCache writes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lmcache.v1.distributed.api import ObjectKey as LMCacheKey
from lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter import _object_key_to_string

from kvchaos.keys import MAX_HASH_BYTES, MAX_SALT_CHARS, MAX_UINT32, ObjectKey
from kvchaos_sidecar.backends.resp_keys import from_redis_key, pattern_for, to_redis_key

KEYS = st.builds(
    ObjectKey,
    st.binary(min_size=1, max_size=MAX_HASH_BYTES),
    st.text(st.characters(codec="utf-8", exclude_characters="@\0"), max_size=40),
    st.integers(0, MAX_UINT32),
    st.integers(0, MAX_UINT32),
    st.text(st.characters(codec="utf-8", exclude_characters="@/\\\0"), max_size=MAX_SALT_CHARS),
)


@given(KEYS)
def test_keys_are_those_of_lmcache_and_read_back(key: ObjectKey) -> None:
    assert to_redis_key(key) == _object_key_to_string(LMCacheKey(*key)).encode()
    assert from_redis_key(to_redis_key(key)) == key


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b"session:42",
        b"m@01000100@0",
        b"m@1000100@0@ff",
        b"m@01000100@00@ff",
        b"m@01000100@0@FF",
        b"m@01000100@0@f",
        b"m@01000100@0@",
        b"m@01000100@0@ff@",
        b"m@01000100@0@ff@a/b",
        b"m@01000100@0@ff@a@b",
        b"m@0x000001@0@ff",
        b"m@ 1000100@0@ff",
        b"\xff@01000100@0@ff",
    ],
)
def test_names_of_others_are_not_keys(name: bytes) -> None:
    assert from_redis_key(name) is None


def test_a_pattern_matches_the_model_to_the_letter() -> None:
    assert pattern_for("a*b?[c]\\") == rb"a\*b\?\[c\]\\@*@*@*"
    assert re.fullmatch(rb".*@.*@.*@.*", to_redis_key(ObjectKey(b"h", "m", 1)))
    assert pattern_for("") == b"*@*@*@*"
