"""Delta debugging, against every kind of cause that a list can hold."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kvchaos.cli.ddmin import ddmin

sizes = st.integers(min_value=1, max_value=24)


@st.composite
def causes(draw: st.DrawFn) -> tuple[int, list[frozenset[int]]]:
    """A number of items, and the sets of items any one of which makes a run fail."""
    size = draw(sizes)
    members = st.frozensets(st.integers(min_value=0, max_value=size - 1), min_size=1)
    return size, draw(st.lists(members, min_size=1, max_size=4))


@given(causes())
def test_the_result_fails_and_does_not_without_any_one_of_its_items(
    case: tuple[int, list[frozenset[int]]],
) -> None:
    size, sets = case

    def fails(part: Sequence[int]) -> bool:
        return any(cause <= set(part) for cause in sets)

    found = ddmin(range(size), fails)
    assert fails(found)
    for left_out in found:
        assert not fails([item for item in found if item != left_out])


@given(sizes, st.sets(st.integers(min_value=0, max_value=23), min_size=1))
def test_a_single_cause_is_found_exactly_and_in_order(size: int, wanted: set[int]) -> None:
    cause = sorted({item % size for item in wanted})
    assert ddmin(range(size), lambda part: set(cause) <= set(part)) == cause


@given(sizes, st.integers(min_value=0, max_value=2**32))
def test_it_is_minimal_for_a_cause_without_any_order(size: int, seed: int) -> None:
    def fails(part: Sequence[int]) -> bool:
        return len(part) == size or (bool(part) and (seed * sum(1 << item for item in part)) % 7 == 3)

    found = ddmin(range(size), fails)
    assert fails(found)
    if len(found) > 1:
        assert not any(fails([item for item in found if item != left_out]) for left_out in found)


@given(causes())
def test_no_part_is_tried_twice_and_neither_all_nor_nothing(case: tuple[int, list[frozenset[int]]]) -> None:
    size, sets = case
    tried: list[tuple[int, ...]] = []

    def fails(part: Sequence[int]) -> bool:
        tried.append(tuple(part))
        return any(cause <= set(part) for cause in sets)

    ddmin(range(size), fails)
    assert len(tried) == len(set(tried))
    assert () not in tried
    assert tuple(range(size)) not in tried


def test_one_cause_among_many_takes_few_runs() -> None:
    runs: list[int] = []

    def fails(part: Sequence[int]) -> bool:
        runs.append(len(part))
        return 700 in part

    assert ddmin(range(1000), fails) == [700]
    assert len(runs) <= 2 * 10
