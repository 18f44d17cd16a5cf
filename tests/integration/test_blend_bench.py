"""The measurements of the blend worker: the arithmetic, and the GPU script on the CPU with a small shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.bench import blend_gpu
from tests.bench.blend_page import describe, overhead_percent, segmented_over_share
from tests.bench.parts.blend import FULL, GAPS, PREFIX, SEGMENTED, computed_runs, gap_chunks
from tests.bench.report import markdown
from tests.bench.results import Results, Row

from kvchaos_blend.plan import Policy, Run, plan_for_missing


def test_gaps_are_where_they_are_said_to_be() -> None:
    middle, at_random, first, last = (gap_chunks(gap, 21) for gap in GAPS)
    assert (middle, first, last) == ([10], [0], [20])
    assert len(at_random) == 2
    assert at_random == gap_chunks(GAPS[1], 21)


def test_the_last_token_is_computed_in_any_case() -> None:
    plan = plan_for_missing(1024, 256, [1], Policy.SEGMENTED_PREFIX)
    assert computed_runs(plan) == (Run(256, 512), Run(1023, 1024))
    ending = plan_for_missing(1030, 256, [1], Policy.SEGMENTED_PREFIX)
    assert computed_runs(ending) == (Run(256, 512), Run(1024, 1030))


def test_time_over_share_is_one_when_time_follows_the_operations(tmp_path: Path) -> None:
    results = Results("blend", tmp_path / "blend.json")
    case = {"tokens": 1024, "gap": GAPS[0], "gap_tokens": 256}
    numbers = {"load_s": 0.0, "scatter_s": 0.0, "overhead_share": 0.02}
    results.add(
        [
            Row(case, FULL, {"median_s": 10.0, "flops": 100.0, **numbers}),
            Row(case, PREFIX, {"median_s": 6.0, "flops": 60.0, **numbers}),
            Row(case, SEGMENTED, {"median_s": 3.0, "flops": 20.0, **numbers}),
        ]
    )
    assert segmented_over_share(results) == [1.5]
    assert overhead_percent(results) == [2.0]
    assert "| 20.0% | 1.50 | 2.0% |" in "".join(describe(results, markdown))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_gpu_script_holds_on_the_cpu_with_a_small_shape(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--shape", "tiny", "--tokens", "1280", "--device", "cpu", "--dtype", "float32"]
    assert blend_gpu.main([*words, "--rounds", "1", "--verify"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["attention"] == "sdpa"
    for case in document["cases"].values():
        policies = case["policies"]
        assert (
            policies["segmented_prefix"]["tflop"] <= policies["prefix"]["tflop"] < policies["full"]["tflop"]
        )
        assert all(passed for passed, _, _ in case["gates"].values())
