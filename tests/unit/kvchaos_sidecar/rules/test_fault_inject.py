import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lmcache.v1.distributed.api import ObjectKey as LMCacheKey
from lmcache.v1.distributed.l2_adapters.fault_inject_l2_adapter import FaultInjectL2Adapter
from tests.harness.shared import shared_file

from kvchaos.keys import ObjectKey
from kvchaos_sidecar.config.schema import FaultInject
from kvchaos_sidecar.faults.drop import Drop
from kvchaos_sidecar.faults.poison import Poison, PoisonKind
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.draw import bucket_function
from kvchaos_sidecar.rules.fault_inject import FaultInjectRule
from kvchaos_sidecar.rules.strike import Strike

KEYS = [ObjectKey(bytes([number]) * 32, "model", 0) for number in range(8)]

text_without_at = st.text(st.characters(exclude_characters="@\0/\\", exclude_categories=["Cs"]), max_size=20)
keys = st.builds(
    ObjectKey,
    chunk_hash=st.binary(min_size=1, max_size=64),
    model_name=text_without_at.map("org/".__add__),
    kv_rank=st.integers(0, 2**32 - 1),
    object_group_id=st.integers(0, 40),
    cache_salt=text_without_at,
)


def drops(rule: FaultInjectRule, batch: Sequence[ObjectKey]) -> list[int]:
    found = strike(rule, batch)
    return list(found.positions) if found else []


def strike(rule: FaultInjectRule, batch: Sequence[ObjectKey]) -> Strike | None:
    return rule.evaluate(Call(Operation.LOAD, batch), range(len(batch))).strike


def vectors() -> list[dict]:
    return json.loads(shared_file("cases/lmcache_drop_vectors.json").read_text())["cases"]


def test_every_recorded_batch_is_dropped_as_lmcache_dropped_it() -> None:
    for case in vectors():
        batch = [ObjectKey(**{**key, "chunk_hash": bytes.fromhex(key["chunk_hash"])}) for key in case["keys"]]
        rule = FaultInjectRule(FaultInject.model_validate(case["fault_inject"]))
        assert drops(rule, batch) == case["dropped"], case["fault_inject"]


@given(
    batch=st.lists(keys, max_size=40),
    rate=st.floats(0, 1) | st.sampled_from([0, 1, 1e-6, 9.99e-7]),
    seed=st.integers(-(2**63), 2**63 - 1),
    gap_indices=st.lists(st.integers(0, 60), max_size=5),
    gap_tail_ratios=st.lists(st.floats(0, 1), max_size=5),
)
def test_a_batch_is_dropped_as_lmcaches_own_adapter_drops_it(
    batch: list[ObjectKey],
    rate: float,
    seed: int,
    gap_indices: list[int],
    gap_tail_ratios: list[float],
) -> None:
    lmcache = FaultInjectL2Adapter(None, rate, seed, tuple(gap_indices), tuple(gap_tail_ratios))
    expected = lmcache._drop_positions([LMCacheKey(**key._asdict()) for key in batch])
    settings = FaultInject(rate=rate, seed=seed, gap_indices=gap_indices, gap_tail_ratios=gap_tail_ratios)
    assert drops(FaultInjectRule(settings), batch) == expected


def test_a_position_is_counted_with_its_first_reason_and_explained_with_all() -> None:
    rule = FaultInjectRule(FaultInject(rate=1.0, gap_indices=[4, 2], gap_tail_ratios=[0.5, 0.0]))
    call = Call(Operation.LOAD, KEYS)
    found = strike(rule, KEYS)
    assert found is not None
    reasons = dict(zip(found.positions, found.reasons, strict=True))
    assert reasons == {
        0: "rate", 1: "rate", 2: "index", 3: "rate", 4: "tail_ratio", 5: "rate", 6: "rate", 7: "tail_ratio",
    }  # fmt: skip
    explained = [(hit.reason, hit.detail) for hit in rule.explain(call, range(8)) if hit.position == 4]
    assert [reason for reason, _ in explained] == ["tail_ratio", "index", "rate"]
    assert explained[0][1] == "round((1 - 0.5) * 7) = 4"
    assert explained[1][1] == "4 is in gap_indices"
    assert explained[2][1].endswith(" < 1000000")


def test_explaining_finds_exactly_the_positions_that_are_dropped() -> None:
    rule = FaultInjectRule(FaultInject(rate=0.4, seed=3, gap_indices=[1], gap_tail_ratios=[0.2]))
    explained = {hit.position for hit in rule.explain(Call(Operation.LOAD, KEYS), range(8))}
    assert sorted(explained) == drops(rule, KEYS)


def test_a_key_is_dropped_from_the_rate_on_that_is_above_its_bucket() -> None:
    bucket = bucket_function("0")(KEYS[0])
    at_the_boundary, just_above = (FaultInject(rate=(bucket + step) / 1e6) for step in (0.5, 1.5))
    assert drops(FaultInjectRule(at_the_boundary), KEYS[:1]) == []
    assert drops(FaultInjectRule(just_above), KEYS[:1]) == [0]


def test_a_drop_carries_the_configured_poison() -> None:
    rule = FaultInjectRule(FaultInject(gap_indices=[0], poison={"byte": 9}))
    found = strike(rule, KEYS)
    assert found is not None
    assert found.fault == Drop(poison=Poison(PoisonKind.BYTE, 9))
    assert (found.rule, found.positions) == ("fault_inject", [0])


def test_positions_beyond_the_batch_are_not_dropped() -> None:
    rule = FaultInjectRule(FaultInject(gap_indices=[8, 2**62]))
    assert drops(rule, KEYS) == []


@pytest.mark.parametrize("settings", [{}, {"rate": 0}, {"rate": 9.99e-7}, {"seed": 5}])
def test_a_rule_that_can_never_fire_looks_at_nothing(settings: dict) -> None:
    assert FaultInjectRule(FaultInject(**settings)).operations == frozenset()


def test_an_armed_rule_looks_at_loads_only() -> None:
    assert FaultInjectRule(FaultInject(rate=1e-6)).operations == {Operation.LOAD}
