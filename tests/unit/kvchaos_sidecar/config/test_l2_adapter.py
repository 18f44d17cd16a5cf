import json

import pytest
from lmcache.v1.distributed.l2_adapters.fault_inject_l2_adapter import FaultInjectL2AdapterConfig

from kvchaos.errors import ConfigError
from kvchaos_sidecar.config.l2_adapter import arguments_from_spec
from kvchaos_sidecar.config.load import load

INNER = {"type": "fs_native", "base_path": "/data/l2", "eviction": {"eviction_policy": "LRU"}}


def problems(spec: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        arguments_from_spec(spec if isinstance(spec, str) else json.dumps(spec))
    assert caught.value.source == "--l2-adapter"
    return caught.value.problems


def test_a_fault_inject_spec_gives_the_inner_verbatim_and_the_faults() -> None:
    spec = {"type": "fault_inject", "inner": INNER, "rate": 0.1, "seed": 7, "gap_tail_ratios": [0.5]}
    document = load(None, arguments_from_spec(json.dumps(spec))).document
    assert document.backend.model_dump() == {"type": "lmcache", "inner": INNER}
    faults = document.fault_inject
    assert (faults.rate, faults.seed, faults.gap_indices, faults.gap_tail_ratios) == (0.1, 7, (), (0.5,))


@pytest.mark.parametrize("kind", ["fs", "fs_native", "mock"])
def test_any_other_spec_is_hosted_verbatim_without_faults(kind: str) -> None:
    document = load(None, arguments_from_spec(json.dumps({"type": kind, "option": 1}))).document
    assert document.backend.model_dump() == {"type": "lmcache", "inner": {"type": kind, "option": 1}}
    assert document.fault_inject.rate == 0


@pytest.mark.parametrize(
    "faults",
    [
        {"rate": 1.5}, {"rate": -0.1}, {"rate": "0.1"}, {"rate": float("nan")}, {"rate": None},
        {"seed": True}, {"seed": 1.0}, {"seed": "1"},
        {"gap_indices": [-1]}, {"gap_indices": [True]}, {"gap_indices": 3}, {"gap_indices": [1.0]},
        {"gap_tail_ratios": [-0.1]}, {"gap_tail_ratios": [1.1]}, {"gap_tail_ratios": [True]},
        {"gap_tail_ratios": 0.5}, {"gap_tail_ratios": ["0.5"]}, {"gap_tail_ratios": [float("nan")]},
    ],
)  # fmt: skip
def test_what_lmcache_refuses_is_refused(faults: dict) -> None:
    spec = {
        "type": "fault_inject",
        "inner": {"type": "mock", "max_size_gb": 1, "mock_bandwidth_gb": 1},
        **faults,
    }
    with pytest.raises(ValueError, match=next(iter(faults))):
        FaultInjectL2AdapterConfig.from_dict(spec)
    (problem,) = problems(spec)
    assert problem.startswith(next(iter(faults)))


@pytest.mark.parametrize(
    "faults",
    [
        {}, {"rate": 0}, {"rate": 1}, {"rate": 1.0}, {"seed": -5}, {"gap_indices": []},
        {"gap_indices": [3, 3, 0]}, {"gap_tail_ratios": [0, 1, 0.5]},
    ],
)  # fmt: skip
def test_what_lmcache_accepts_is_accepted_with_the_same_values(faults: dict) -> None:
    spec = {
        "type": "fault_inject",
        "inner": {"type": "mock", "max_size_gb": 1, "mock_bandwidth_gb": 1},
        **faults,
    }
    theirs = FaultInjectL2AdapterConfig.from_dict(spec)
    ours = load(None, arguments_from_spec(json.dumps(spec))).document.fault_inject
    assert (ours.rate, ours.seed, ours.gap_indices, ours.gap_tail_ratios) == (
        theirs.rate,
        theirs.seed,
        theirs.gap_indices,
        theirs.gap_tail_ratios,
    )


def test_a_boolean_rate_is_refused_although_lmcache_takes_it() -> None:
    assert problems({"type": "fault_inject", "inner": INNER, "rate": True}) == ("rate: true is not a number",)


@pytest.mark.parametrize(
    ("spec", "start"),
    [
        ("", "not JSON: "),
        ("{", "not JSON: "),
        ("[" * 100_000, "not JSON: "),
        ("[]", "[] is not a JSON object"),
        ('{"type": "fs", "type": "fs"}', "the key type is there twice"),
        ({}, "an adapter spec needs a string 'type'"),
        ({"type": 3}, "an adapter spec needs a string 'type'"),
        ({"type": "fault_inject"}, "inner: missing; write "),
        ({"type": "fault_inject", "inner": "fs"}, 'inner: "fs" is not an adapter spec; write '),
        ({"type": "fault_inject", "inner": {}}, "inner: an adapter spec needs a string 'type'"),
        ({"type": "fault_inject", "inner": INNER, "rat": 1}, "rat: unknown key; did you mean rate?"),
        ({"type": "fault_inject", "inner": INNER, "eviction": {}}, "eviction: belongs into 'inner'"),
    ],
)
def test_a_malformed_spec_is_refused_with_the_fix(spec: object, start: str) -> None:
    (problem,) = problems(spec)
    assert problem.startswith(start)


def test_every_problem_is_listed() -> None:
    assert len(problems({"type": "fault_inject", "rate": 2, "seed": "x", "gap": []})) == 4
