"""The cost model."""

from __future__ import annotations

import pytest
import torch
from tests.harness.blend import CONFIGS, prompt, random_model
from torch.utils.flop_counter import FlopCounterMode

from kvchaos_blend.flops import ModelShape
from kvchaos_blend.plan import Run

LLAMA_3_8B = ModelShape(32, 4096, 32, 8, 128, 14336)


def test_llama_3_8b_at_32k_costs_what_is_known_of_it() -> None:
    full = LLAMA_3_8B.flops([Run(0, 32768)])
    middle = LLAMA_3_8B.flops([Run(16384, 16640), Run(32767, 32768)])
    assert full / 1e12 == pytest.approx(739, rel=0.001)
    assert middle / 1e12 == pytest.approx(5.8, rel=0.01)


def test_runs_add_up_to_the_whole() -> None:
    whole = LLAMA_3_8B.flops([Run(0, 1000)])
    assert LLAMA_3_8B.flops([Run(0, 300), Run(300, 1000)]) == whole


def test_linear_work_is_what_torch_counts() -> None:
    hf_model = random_model(CONFIGS["llama"]()).hf_model
    shape = ModelShape(3, 48, 6, 2, 8, 80)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        hf_model.base_model(input_ids=torch.tensor([prompt(32)]), use_cache=False)
    by_operation = counter.get_flop_counts()["Global"]
    linear = sum(count for operation, count in by_operation.items() if str(operation) == "aten.mm")
    attention = 4 * 3 * 6 * 8 * (32 * 33 // 2)
    assert linear == shape.flops([Run(0, 32)]) - attention
