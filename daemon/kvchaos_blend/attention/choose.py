"""Chooses the attention implementation at start."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kvchaos_blend.attention.contract import Heads, PagedAttention
from kvchaos_blend.attention.flex import Flex
from kvchaos_blend.attention.probe import probe
from kvchaos_blend.attention.sdpa_gaps import SdpaGaps
from kvchaos_blend.attention.varlen import Varlen

NAMES = ("auto", SdpaGaps.name, Flex.name, Varlen.name)

ASKED_FOR = "asked for"
NOT_COMPILED = (
    "asked for; not compiled, because torch.compile mixes up symbols of shapes in its CPU template,"
    " so that some kernels do not compile"
)


class Choice(NamedTuple):
    """An implementation, and why it is this one."""

    attention: PagedAttention
    reason: str
    """For status: who wanted it, or why a faster one was passed over."""


def require_known(name: str) -> None:
    """Raises ValueError for a name that :func:`choose_attention` does not know."""
    if name not in NAMES:
        raise ValueError(f"unknown attention {name!r}; known: {', '.join(NAMES)}")


def choose_attention(name: str, heads: Heads, device: torch.device, dtype: torch.dtype) -> Choice:
    """The implementation called ``name``; for "auto" the fastest one that runs on this machine.

    Whatever depends on a compiler or on kernels that may be missing has computed something, rightly,
    before it is chosen.

    Raises:
        ValueError: an unknown name, or one that cannot run here; the message says why.
    """
    require_known(name)
    if name == "auto":
        return _fastest(heads, device, dtype)
    if name == SdpaGaps.name:
        return Choice(SdpaGaps(), ASKED_FOR)
    if name == Flex.name:
        return _flex(heads, device, dtype)
    return Choice(_varlen(heads, device, dtype), ASKED_FOR)


def _fastest(heads: Heads, device: torch.device, dtype: torch.dtype) -> Choice:
    try:
        return Choice(_varlen(heads, device, dtype), "the fastest here")
    except ValueError as error:
        return Choice(SdpaGaps(), f"passed over: {error}")


def _flex(heads: Heads, device: torch.device, dtype: torch.dtype) -> Choice:
    if device.type == "cpu":
        return Choice(Flex(), NOT_COMPILED)
    flex = Flex.compiled()
    probe(flex, heads, device, dtype)
    return Choice(flex, ASKED_FOR)


def _varlen(heads: Heads, device: torch.device, dtype: torch.dtype) -> Varlen:
    if device.type != "cuda":
        raise ValueError("attention 'varlen' needs a CUDA device; use 'sdpa' or 'flex'")
    if dtype not in (torch.bfloat16, torch.float16):
        raise ValueError(f"attention 'varlen' needs bfloat16 or float16, not {dtype}; use 'sdpa' or 'flex'")
    try:
        varlen = Varlen.on_flash_attention_3()
    except (ImportError, RuntimeError) as error:
        raise ValueError(f"attention 'varlen' needs the FlashAttention 3 kernels: {error}") from error
    probe(varlen, heads, device, dtype)
    return varlen
