"""A forward pass over chosen positions, and the traits read from a configuration."""

from __future__ import annotations

import pytest
import torch
from tests.harness.blend import (
    CONFIGS,
    partly_sliding_config,
    prompt,
    random_model,
    recurrent_config,
    sliding_config,
)
from transformers import LlamaConfig, PreTrainedConfig

from kvchaos_blend.attention.sdpa_gaps import SdpaGaps
from kvchaos_blend.model import CausalModel
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import KVPool
from kvchaos_blend.reference import Reference

PROMPT = prompt(40)
ALL_CONFIGS = {
    **CONFIGS,
    "sliding": lambda: sliding_config(9),
    "partly-sliding": lambda: partly_sliding_config(9),
}


def make(config: PreTrainedConfig) -> tuple[CausalModel, KVPool]:
    model = CausalModel(random_model(config), SdpaGaps())
    return model, KVPool(model.geometry, 64, model.device, block_tokens=4)


@pytest.mark.parametrize("config", ALL_CONFIGS.values(), ids=ALL_CONFIGS.keys())
def test_a_pass_in_pieces_gives_the_kv_and_logits_of_transformers(config: object) -> None:
    model, pool = make(config())  # type: ignore[operator]
    exact = Reference(model.hf_model).prefill(PROMPT, 1)
    with pool.lend(4), pool.lend(len(PROMPT)) as table:
        model.compute(PROMPT, [Run(0, 11)], pool, table)
        model.compute(PROMPT, [Run(11, 13), Run(13, 20)], pool, table)
        logits = model.compute(PROMPT, [Run(20, 40)], pool, table, want_logits=True)
        kv = pool.read(table.slots[: len(PROMPT)])
    assert logits is not None
    torch.testing.assert_close(kv, exact.kv)
    torch.testing.assert_close(logits, exact.logits[0], atol=1e-4, rtol=1e-4)


def test_positions_outside_the_runs_are_not_touched() -> None:
    model, pool = make(CONFIGS["llama"]())
    with pool.lend(len(PROMPT)) as table:
        pool.fill(table, 0.25)
        model.compute(PROMPT, [Run(8, 12)], pool, table)
        kv = pool.read(table.slots)
    touched = (kv != 0.25).flatten(3).any(dim=3).flatten(0, 1).any(dim=0)
    assert touched.nonzero().flatten().tolist() == [8, 9, 10, 11]


def test_the_checkpoint_sees_every_layer_and_can_end_the_pass() -> None:
    model, pool = make(CONFIGS["llama"]())
    seen: list[int] = []

    def checkpoint(layer: int) -> None:
        seen.append(layer)
        if layer == 1:
            raise InterruptedError

    with pool.lend(8) as table, pytest.raises(InterruptedError):
        model.compute(PROMPT, [Run(0, 8)], pool, table, checkpoint)
    assert seen == [0, 1]


def test_the_reference_runs_on_the_same_memory_and_leaves_the_model_alone() -> None:
    model, _ = make(CONFIGS["llama"]())
    reference = Reference(model.hf_model)
    reference.prefill(PROMPT, 1)
    theirs = reference._hf_model.lm_head.weight
    assert theirs.data_ptr() == model.hf_model.lm_head.weight.data_ptr()
    assert model.hf_model.config._attn_implementation == "kvchaos_paged"


def test_traits_come_from_the_configuration() -> None:
    def traits(config: PreTrainedConfig) -> object:
        return CausalModel(random_model(config), SdpaGaps()).traits

    assert traits(CONFIGS["llama"]()).shortest_window is None  # type: ignore[attr-defined]
    assert traits(sliding_config(9)).windows == (9, 9, 9)  # type: ignore[attr-defined]
    assert traits(partly_sliding_config(9)).windows == (None, 9, 9)  # type: ignore[attr-defined]
    assert traits(recurrent_config()).recurrent  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("rope", "limit"),
    [
        ({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}, 64),
        (
            {
                "rope_type": "longrope",
                "rope_theta": 1e4,
                "factor": 2.0,
                "short_factor": [1.0] * 4,
                "long_factor": [2.0] * 4,
                "original_max_position_embeddings": 32,
            },
            32,
        ),
    ],
    ids=["dynamic", "longrope"],
)
def test_rope_that_depends_on_the_prompts_length_is_noticed(rope: dict[str, object], limit: int) -> None:
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        rope_parameters=rope,
    )
    assert CausalModel(random_model(config), SdpaGaps()).traits.rope_fixed_up_to == limit
