"""The choice of an attention implementation."""

from __future__ import annotations

import pytest
import torch

from kvchaos_blend.attention.choose import choose_attention
from kvchaos_blend.attention.contract import Heads

HEADS = Heads(query=6, kv=2, dim=16)
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(("name", "chosen"), [("auto", "sdpa"), ("sdpa", "sdpa"), ("flex", "flex")])
def test_the_cpu_has_sdpa_and_flex(name: str, chosen: str) -> None:
    assert choose_attention(name, HEADS, CPU, torch.float32).attention.name == chosen


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown attention 'eager'; known: auto, sdpa, flex, varlen"):
        choose_attention("eager", HEADS, CPU, torch.float32)


@pytest.mark.parametrize(
    ("device", "dtype", "reason"),
    [(CPU, torch.bfloat16, "needs a CUDA device"), (CUDA, torch.float32, "needs bfloat16")],
)
def test_varlen_says_why_it_cannot_run(device: torch.device, dtype: torch.dtype, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        choose_attention("varlen", HEADS, device, dtype)


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="asks what happens without the FlashAttention 3 kernels"
)
def test_missing_kernels_are_named_and_auto_does_without() -> None:
    with pytest.raises(ValueError, match="needs the FlashAttention 3 kernels"):
        choose_attention("varlen", HEADS, CUDA, torch.bfloat16)
    choice = choose_attention("auto", HEADS, CUDA, torch.bfloat16)
    assert choice.attention.name == "sdpa"
    assert choice.reason.startswith("passed over: attention 'varlen' needs the FlashAttention 3 kernels")


def test_flex_on_the_cpu_says_why_it_is_not_compiled() -> None:
    choice = choose_attention("flex", HEADS, CPU, torch.float32)
    assert "not compiled" in choice.reason
