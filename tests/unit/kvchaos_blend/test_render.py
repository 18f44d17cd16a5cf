"""What a person sees."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console, RenderableType
from tests.harness.blend_reports import VERIFICATION, recovery_report

from kvchaos_blend.plan import Policy, make_plan
from kvchaos_blend.progress import ChunkSettled, Event, LayerStarted, Phase, PhaseStarted, Planned, TokenMade
from kvchaos_blend.render import LiveView, comparison, plan_table, prompt_row, recovery_view, store_view
from kvchaos_blend.report import StoreReport


def shown(view: RenderableType) -> str:
    console = Console(width=100, record=True, file=StringIO())
    console.print(view)
    return console.export_text()


def test_the_prompt_is_a_row_of_chunks_and_its_end() -> None:
    plan = make_plan([True, True, False, True], 70, 16, Policy.PREFIX)
    assert prompt_row(plan).plain.split() == ["L", "L", "R", "d", "R"]
    styles = [str(span.style) for span in prompt_row(plan).spans]
    assert [style.rsplit(" ", 1)[1] for style in styles] == ["green", "green", "yellow", "red", "yellow"]


def test_a_recovery_shows_tokens_times_gates_and_trouble() -> None:
    text = shown(recovery_view(recovery_report(verification=VERIFICATION)))
    for expected in (
        "tokens loaded",
        "tokens saved",
        "32",
        "load ms",
        "250.0",
        "overhead ms",
        "9.0",
        "FAILED",
        "recomputed_kv",
        "fallback: a sliding window would cross a gap",
        "warning: the locks were not given back",
        "healed chunks: 1",
        "'blue sky'",
    ):
        assert expected in text


def test_a_comparison_has_a_column_for_each_recovery() -> None:
    text = shown(comparison([recovery_report(policy) for policy in Policy]))
    assert all(policy.value in text for policy in Policy)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], "· · ·"),
        ([ChunkSettled(0, "loaded"), ChunkSettled(1, "dropped")], "L x ·"),
        ([Planned(make_plan([True, False, True], 48, 16, Policy.SEGMENTED_PREFIX))], "L R L"),
        ([PhaseStarted(Phase.RECOMPUTE), LayerStarted(4, 30, 16)], "recompute  16 tokens, layer 5 of 30"),
        ([TokenMade(5), TokenMade(6)], "2 tokens made"),
    ],
)
def test_the_live_view_follows_the_events(events: list[Event], expected: str) -> None:
    view = LiveView(3)
    for event in events:
        view(event)
    assert expected in shown(view)


def test_a_store_says_what_it_could_not_do() -> None:
    text = shown(store_view(StoreReport(100, 6, 3, 1, {"no_space": 2}, 2**20, {}, 0.5)))
    assert "3 of 6 chunks stored (1.0 MiB), 1 were there, in 500 ms" in text
    assert "2 not stored: no_space" in text


def test_a_plan_lists_its_segments() -> None:
    text = shown(plan_table(make_plan([True, False], 40, 16, Policy.PREFIX)))
    assert "recomputed" in text
    assert "39" in text
