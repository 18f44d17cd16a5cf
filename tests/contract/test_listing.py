"""Listing in pages, and what the store says it holds."""

from __future__ import annotations

import pytest

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.backends.contract import Backend, ListingUnsupported
from tests.contract.conftest import Driver
from tests.contract.steps import content, key, store


async def pages(backend: Backend, model: str, page_size: int) -> list[list[tuple[ObjectKey, int]]]:
    """Every page of a listing."""
    found: list[list[tuple[ObjectKey, int]]] = []
    cursor = ""
    while True:
        page = await backend.list_keys(model, page_size, cursor)
        found.append(list(page.entries))
        cursor = page.next_cursor
        if not cursor:
            return found


@pytest.fixture
def listing(drive: Driver) -> Driver:
    """A backend that can list."""
    if not drive.case.can_list:
        pytest.skip("this backend cannot list its keys")
    return drive


def test_a_backend_that_cannot_list_says_so(drive: Driver) -> None:
    if drive.case.can_list:
        pytest.skip("this backend can list its keys")

    async def scenario(backend: Backend) -> None:
        with pytest.raises(ListingUnsupported):
            await backend.list_keys("", 10, "")

    drive(scenario)


@pytest.mark.parametrize("page_size", [1, 3, 7, 8, 100])
def test_pages_hold_every_key_once_with_its_size(listing: Driver, page_size: int) -> None:
    async def scenario(backend: Backend) -> None:
        objects = {key(number): content(number, number + 1) for number in range(7)}
        await store(backend, objects)
        found = await pages(backend, "", page_size)
        entries = [entry for page in found for entry in page]
        assert len(entries) == 7
        assert dict(entries) == {k: len(data) for k, data in objects.items()}
        assert all(len(page) <= page_size for page in found)
        assert found == await pages(backend, "", page_size)

    listing(scenario)


def test_an_empty_store_has_one_empty_page(listing: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        assert await pages(backend, "", 10) == [[]]

    listing(scenario)


def test_a_listing_of_one_model(listing: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        models = ["a/b", "a", "a/b/c", "a/b"]
        objects = {key(number, model): b"bytes" for number, model in enumerate(models)}
        await store(backend, objects)
        found = await pages(backend, "a/b", 1)
        assert sorted(k for page in found for k, _ in page) == [key(0, "a/b"), key(3, "a/b")]
        assert await pages(backend, "nobody", 10) == [[]]

    listing(scenario)


def test_keys_deleted_between_pages_do_not_hide_others(listing: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        keys = [key(number) for number in range(6)]
        await store(backend, dict.fromkeys(keys, b"bytes"))
        first = await backend.list_keys("", 2, "")
        await backend.delete([k for k, _ in first.entries])
        rest: list[ObjectKey] = []
        cursor = first.next_cursor
        while cursor:
            page = await backend.list_keys("", 2, cursor)
            rest += [k for k, _ in page.entries]
            cursor = page.next_cursor
        assert sorted([k for k, _ in first.entries] + rest) == keys

    listing(scenario)


@pytest.mark.parametrize("cursor", ["not a cursor", "-1", "\0", "../..", "\u0663", "x" * 1000])
def test_a_malformed_cursor_is_refused(listing: Driver, cursor: str) -> None:
    async def scenario(backend: Backend) -> None:
        await store(backend, {key(1): b"bytes"})
        with pytest.raises(ValueError, match="cursor"):
            await backend.list_keys("", 10, cursor)

    listing(scenario)


def test_usage_counts_what_passed_through(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        assert (await backend.usage()).total_bytes == 0
        mine, yours, plain = key(1, salt="mine"), key(2, salt="yours"), key(3)
        await store(backend, {mine: b"x" * 10, yours: b"x" * 20, plain: b"x" * 30})
        await store(backend, {mine: b"y" * 10})
        usage = await backend.usage()
        assert usage.total_bytes == 60
        assert usage.capacity_bytes == backend.capacity_bytes
        assert usage.bytes_by_cache_salt == {"mine": 10, "yours": 20, "": 30}
        await backend.delete([mine, mine])
        usage = await backend.usage()
        assert usage.total_bytes == 50
        assert usage.bytes_by_cache_salt == {"yours": 20, "": 30}

    drive(scenario)


def test_a_store_that_answers_passes_its_probe(drive: Driver) -> None:
    async def scenario(backend: Backend) -> None:
        await backend.probe()

    drive(scenario)
