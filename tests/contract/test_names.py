"""Hostile but legal keys, and keys that a store cannot represent."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvchaos.keys import MAX_HASH_BYTES, MAX_SALT_CHARS, MAX_UINT32, ObjectKey, check_key
from kvchaos.results import Result
from kvchaos_sidecar.backends.contract import Backend, WriteLease
from tests.contract.conftest import Driver
from tests.contract.steps import content, load, store

HOSTILE_MODELS = [
    "",
    ".",
    "..",
    "../../etc/passwd",
    "/absolute/path",
    "a//b/",
    "back\\slash",
    "new\nline\ttab",
    "model.data",
    "ünï/日本語/🤖",
    "*?[glob]",
    "percent%2Fslash:colon",
    " leading and trailing ",
    "{brace}{0}",
]
HOSTILE_SALTS = ["", ".", "..", "sält", "a b", "*", ".data", "x" * MAX_SALT_CHARS]
UNREPRESENTABLE_HERE_OR_THERE = [
    ObjectKey(b"h" * 32, "m" * 300, 1),
    ObjectKey(b"h" * 64, "日" * 20, 1, 0, "日" * MAX_SALT_CHARS),
    ObjectKey(b"h" * 32, "/" * 60, 1),
]

TEXT = st.characters(codec="utf-8", exclude_characters="@\0")
KEYS = st.builds(
    ObjectKey,
    st.binary(min_size=1, max_size=MAX_HASH_BYTES // 2),
    st.text(TEXT, max_size=10),
    st.integers(0, MAX_UINT32),
    st.integers(0, MAX_UINT32),
    st.text(st.characters(codec="utf-8", exclude_characters="@/\\\0"), max_size=8),
)


def test_hostile_names_are_ordinary_keys(drive: Driver) -> None:
    keys = [ObjectKey(b"\xff" * 8, model, 1) for model in HOSTILE_MODELS]
    keys += [ObjectKey(b"\xff" * 8, "m", 1, 0, salt) for salt in HOSTILE_SALTS]
    for key in keys:
        check_key(key)

    async def scenario(backend: Backend) -> None:
        objects = {key: content(number, 64) for number, key in enumerate(keys)}
        assert await store(backend, objects) == [Result.OK] * len(keys)
        assert await load(backend, keys, [64] * len(keys)) == list(objects.values())
        assert await backend.delete(keys) == [64] * len(keys)

    drive(scenario)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.lists(KEYS, min_size=1, max_size=8, unique=True))
def test_any_legal_keys_round_trip(drive: Driver, keys: list[ObjectKey]) -> None:
    async def scenario(backend: Backend) -> None:
        objects = {key: content(number, 32) for number, key in enumerate(keys)}
        assert await store(backend, objects) == [Result.OK] * len(keys)
        assert await load(backend, keys, [32] * len(keys)) == list(objects.values())
        assert await backend.delete(keys) == [32] * len(keys)

    drive(scenario)


@pytest.mark.parametrize("key", UNREPRESENTABLE_HERE_OR_THERE, ids=["long", "wide", "slashes"])
def test_a_key_is_stored_or_invalid_and_leaves_its_batch_alone(drive: Driver, key: ObjectKey) -> None:
    if not drive.case.checks_names:
        pytest.skip("this store finds out only as it stores")
    good = ObjectKey(b"good", "m", 1)

    async def scenario(backend: Backend) -> None:
        made = await backend.open_writes([good, key], [5, 5])
        assert isinstance(made[0], WriteLease)
        backend.discard([made[0]])
        if isinstance(made[1], WriteLease):
            backend.discard([made[1]])
            assert await store(backend, {key: b"bytes", good: b"bytes"}) == [Result.OK, Result.OK]
            assert await load(backend, [key, good], [5, 5]) == [b"bytes", b"bytes"]
            return
        assert made[1] is Result.INVALID
        assert await store(backend, {key: b"bytes", good: b"bytes"}) == [Result.INVALID, Result.OK]
        assert await backend.contains([key, good]) == [False, True]
        assert await load(backend, [key, good], [5, 5]) == [Result.INVALID, b"bytes"]
        assert await backend.delete([key, good]) == [Result.INVALID, 5]

    drive(scenario)
