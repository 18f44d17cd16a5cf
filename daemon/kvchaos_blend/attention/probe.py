"""Runs an attention implementation once, at start, on what recoveries will ask of it."""

from __future__ import annotations

import torch

from kvchaos_blend.attention.contract import Heads, LayerPages, PagedAttention
from kvchaos_blend.attention.sdpa_gaps import SdpaGaps
from kvchaos_blend.geometry import KVGeometry
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import KVPool

BLOCK_TOKENS = 16
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 1e-2}
"""Largest difference from :class:`SdpaGaps`, for values that are normally distributed."""

_RUNS = ((Run(3, 20), Run(40, 41), Run(60, 150)), (Run(149, 150),))
_WINDOWS = (None, 33)


def probe(attention: PagedAttention, heads: Heads, device: torch.device, dtype: torch.dtype) -> None:
    """Several runs and a single token, with and without a sliding window, against :class:`SdpaGaps`.

    A kernel that is compiled at its first use is compiled here, before the first recovery.

    Raises:
        ValueError: it cannot run here, or computes something else; the message says what happened.
    """
    for runs in _RUNS:
        for window in _WINDOWS:
            difference = _difference(attention, heads, device, dtype, runs, window)
            if not difference <= TOLERANCE[dtype]:
                raise ValueError(
                    f"attention {attention.name!r} differs from 'sdpa' by {difference:.2g} here; use 'sdpa'"
                )


def _difference(
    attention: PagedAttention,
    heads: Heads,
    device: torch.device,
    dtype: torch.dtype,
    runs: tuple[Run, ...],
    window: int | None,
) -> float:
    generator = torch.Generator().manual_seed(0)
    pool = KVPool(KVGeometry(1, heads.kv, heads.dim, dtype), runs[-1].end, device, BLOCK_TOKENS)
    pool.pages.copy_(torch.randn(pool.pages.shape, generator=generator))
    tokens = sum(run.tokens for run in runs)
    query = torch.randn((tokens, heads.query, heads.dim), generator=generator).to(device, dtype)
    pages = LayerPages(pool.pages[0, 0], pool.pages[0, 1])

    def output(implementation: PagedAttention) -> torch.Tensor:
        prepared = implementation.prepare(runs, table)
        return implementation.attend(query, pages, prepared, heads.dim**-0.5, window)

    with pool.lend(runs[-1].end) as table, torch.inference_mode():
        try:
            actual = output(attention)
        except Exception as error:  # a compiler and its tools may raise anything
            first_line = str(error).strip().split("\n", 1)[0]
            raise ValueError(
                f"attention {attention.name!r} cannot run here: {type(error).__name__}: {first_line};"
                " use 'sdpa'"
            ) from error
        return float((actual - output(SdpaGaps())).abs().max())
