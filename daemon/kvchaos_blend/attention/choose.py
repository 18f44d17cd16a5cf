"""Chooses the attention implementation at start."""

from __future__ import annotations

import torch

from kvchaos_blend.attention.contract import PagedAttention
from kvchaos_blend.attention.flex import Flex
from kvchaos_blend.attention.sdpa_gaps import SdpaGaps
from kvchaos_blend.attention.varlen import Varlen

NAMES = ("auto", SdpaGaps.name, Flex.name, Varlen.name)


def choose_attention(name: str, device: torch.device, dtype: torch.dtype) -> PagedAttention:
    """The implementation called ``name``; for "auto" the fastest one that this machine has.

    Raises:
        ValueError: an unknown name, or one that cannot run here; the message says why.
    """
    if name == "auto":
        return _fastest(device, dtype)
    if name == SdpaGaps.name:
        return SdpaGaps()
    if name == Flex.name:
        return Flex.compiled()
    if name == Varlen.name:
        return _varlen(device, dtype)
    raise ValueError(f"unknown attention {name!r}; known: {', '.join(NAMES)}")


def _fastest(device: torch.device, dtype: torch.dtype) -> PagedAttention:
    try:
        return _varlen(device, dtype)
    except ValueError:
        return SdpaGaps()


def _varlen(device: torch.device, dtype: torch.dtype) -> Varlen:
    if device.type != "cuda":
        raise ValueError("attention 'varlen' needs a CUDA device; use 'sdpa' or 'flex'")
    if dtype not in (torch.bfloat16, torch.float16):
        raise ValueError(f"attention 'varlen' needs bfloat16 or float16, not {dtype}; use 'sdpa' or 'flex'")
    try:
        return Varlen.on_flash_attention_3()
    except (ImportError, RuntimeError) as error:
        raise ValueError(f"attention 'varlen' needs the FlashAttention 3 kernels: {error}") from error
