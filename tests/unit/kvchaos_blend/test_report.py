"""Reports as plain data."""

from __future__ import annotations

import json

from tests.harness.blend_reports import VERIFICATION, recovery_report

from kvchaos_blend.plan import Policy


def test_a_report_survives_json() -> None:
    document = recovery_report(verification=VERIFICATION).to_json()
    assert json.loads(json.dumps(document)) == document
    assert document["outcome"] == "verification_failed"
    assert document["asked_policy"] == "segmented_prefix"
    assert document["plan"]["policy"] == "prefix"
    assert document["plan"]["kept_chunks"] == [0, 1]
    assert document["plan"]["tokens"] == {"loaded": 32, "recomputed": 23, "dropped": 32}
    assert document["plan"]["segments"][0] == {"action": "loaded", "start": 0, "end": 32}
    assert document["tokens_saved"] == 32
    assert document["verification"]["passed"] is False
    assert document["verification"]["gates"][1]["measured"] == 0.5


def test_overhead_is_what_no_phase_accounts_for() -> None:
    assert abs(recovery_report().overhead_s - 0.009) < 1e-12


def test_saved_tokens_are_those_that_were_not_computed() -> None:
    assert recovery_report(Policy.PREFIX).tokens_saved == 32
    assert recovery_report(Policy.SEGMENTED_PREFIX).tokens_saved == 64
