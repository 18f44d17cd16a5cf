"""Plans: what is kept, dropped and recomputed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvchaos_blend.plan import (
    Action,
    Plan,
    Policy,
    Run,
    Segment,
    make_plan,
    merge,
    plan_for_missing,
    subtract,
)

FOUND = st.lists(st.booleans(), max_size=12)
RUNS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 6)).map(lambda pair: Run(pair[0], pair[0] + pair[1])),
    max_size=5,
)
ONE_GAP = [True, True, False, True, True]


def positions(runs: object) -> set[int]:
    return {position for run in runs for position in range(run.start, run.end)}  # type: ignore[attr-defined]


def disjoint(runs: list[Run]) -> list[Run]:
    taken: list[Run] = []
    for run in runs:
        taken += subtract([run], taken)
    return taken


def test_prefix_keeps_what_lies_before_the_first_gap() -> None:
    plan = make_plan(ONE_GAP, 80, 16, Policy.PREFIX)
    assert plan.kept_chunks == (0, 1)
    assert plan.segments == (
        Segment(Action.LOADED, Run(0, 32)),
        Segment(Action.RECOMPUTED, Run(32, 48)),
        Segment(Action.DROPPED, Run(48, 80)),
    )
    assert plan.computed_runs == (Run(32, 80),)


def test_segmented_prefix_keeps_everything_found() -> None:
    plan = make_plan(ONE_GAP, 80, 16, Policy.SEGMENTED_PREFIX)
    assert plan.kept_chunks == (0, 1, 3, 4)
    assert plan.computed_runs == (Run(32, 48),)


def test_full_prefill_keeps_nothing() -> None:
    plan = make_plan(ONE_GAP, 80, 16, Policy.FULL_PREFILL)
    assert plan.kept_chunks == ()
    assert plan.computed_runs == (Run(0, 80),)


def test_what_has_no_key_is_recomputed() -> None:
    plan = make_plan([True], 20, 16, Policy.SEGMENTED_PREFIX)
    assert plan.segments[-1] == Segment(Action.RECOMPUTED, Run(16, 20))


def test_a_prompt_shorter_than_a_chunk_is_all_recomputed() -> None:
    assert make_plan([], 5, 16, Policy.PREFIX).segments == (Segment(Action.RECOMPUTED, Run(0, 5)),)


@given(found=FOUND, end=st.integers(0, 15), policy=st.sampled_from(Policy))
def test_segments_cover_the_prompt_once(found: list[bool], end: int, policy: Policy) -> None:
    prompt_tokens = len(found) * 16 + end
    plan: Plan = make_plan(found, prompt_tokens, 16, policy)
    edges = [0, *(segment.run.end for segment in plan.segments)]
    assert [segment.run.start for segment in plan.segments] == edges[:-1]
    assert edges[-1] == prompt_tokens
    assert all(a.action is not b.action for a, b in zip(plan.segments, plan.segments[1:], strict=False))
    assert sum(plan.tokens(action) for action in Action) == prompt_tokens


@given(found=FOUND, policy=st.sampled_from(Policy))
def test_only_what_was_found_is_kept(found: list[bool], policy: Policy) -> None:
    assert all(found[chunk] for chunk in make_plan(found, len(found) * 4, 4, policy).kept_chunks)


@given(found=FOUND)
def test_segmented_never_keeps_less_than_prefix(found: list[bool]) -> None:
    kept = [
        set(make_plan(found, len(found), 1, p).kept_chunks) for p in (Policy.PREFIX, Policy.SEGMENTED_PREFIX)
    ]
    assert kept[0] <= kept[1]


@given(runs=RUNS, taken=RUNS)
def test_subtract_is_set_difference(runs: list[Run], taken: list[Run]) -> None:
    left = subtract(merge(disjoint(runs)), taken)
    assert positions(left) == positions(runs) - positions(taken)


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown policy 'suffix'; known: full, prefix, segmented_prefix"):
        Policy.parse("suffix")


def test_a_plan_for_missing_chunks_names_what_is_wrong() -> None:
    assert plan_for_missing(80, 16, [2], Policy.SEGMENTED_PREFIX) == make_plan(
        ONE_GAP, 80, 16, Policy.SEGMENTED_PREFIX
    )
    for missing in (-1, 5):
        with pytest.raises(ValueError, match=f"missing chunk {missing} is not one of the prompt's 5"):
            plan_for_missing(80, 16, [missing], Policy.PREFIX)
    for sizes in ((0, 16), (80, 0)):
        with pytest.raises(ValueError, match="both must be at least 1"):
            plan_for_missing(*sizes, [], Policy.PREFIX)
