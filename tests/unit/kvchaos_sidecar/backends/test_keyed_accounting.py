"""Usage, held to what LMCache's native connectors count."""

from __future__ import annotations

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.backends.keyed_accounting import KeyedAccounting

PLAIN, SALTED = ObjectKey(b"a", "m", 1), ObjectKey(b"b", "m", 1, 0, "salt")


def test_a_key_counts_once() -> None:
    accounting = KeyedAccounting(1000)
    accounting.stored(PLAIN, 10)
    accounting.stored(PLAIN, 10)
    accounting.stored(SALTED, 5)
    usage = accounting.usage()
    assert (usage.total_bytes, usage.capacity_bytes) == (15, 1000)
    assert usage.bytes_by_cache_salt == {"": 10, "salt": 5}


def test_only_what_was_counted_is_taken_off() -> None:
    accounting = KeyedAccounting()
    accounting.stored(PLAIN, 10)
    accounting.deleted(SALTED)
    assert accounting.usage().total_bytes == 10
    accounting.deleted(PLAIN)
    accounting.deleted(PLAIN)
    assert accounting.usage().total_bytes == 0
    accounting.stored(PLAIN, 7)
    assert accounting.usage().total_bytes == 7
