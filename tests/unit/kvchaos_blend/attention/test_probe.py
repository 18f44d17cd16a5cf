"""The probe of an attention implementation, at start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from kvchaos_blend.attention.contract import Heads, LayerPages
from kvchaos_blend.attention.flex import Flex
from kvchaos_blend.attention.probe import TOLERANCE, probe
from kvchaos_blend.attention.sdpa_gaps import SdpaGaps
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable

HEADS = Heads(query=6, kv=2, dim=16)
CPU = torch.device("cpu")


class BlindToWindows(SdpaGaps):
    """Right, but for sliding windows."""

    def attend(
        self, query: torch.Tensor, pages: LayerPages, prepared: Any, scale: float, window: int | None
    ) -> torch.Tensor:
        return super().attend(query, pages, prepared, scale, None)


class FailsForOneToken(SdpaGaps):
    """As a compiled kernel does that cannot be compiled for one of its shapes."""

    name = "picky"

    def prepare(self, runs: Sequence[Run], table: BlockTable) -> Any:
        if runs[-1].tokens == 1:
            raise RuntimeError("no kernel for one token\nand much more to say")
        return super().prepare(runs, table)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("attention", [SdpaGaps(), Flex()], ids=["sdpa", "flex"])
def test_what_computes_rightly_passes(attention: Any, dtype: torch.dtype) -> None:
    probe(attention, HEADS, CPU, dtype)


def test_what_computes_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="attention 'sdpa' differs from 'sdpa' by"):
        probe(BlindToWindows(), HEADS, CPU, torch.float32)


def test_what_cannot_run_in_one_case_is_refused_in_one_line() -> None:
    with pytest.raises(
        ValueError, match=r"'picky' cannot run here: RuntimeError: no kernel for one token; use 'sdpa'$"
    ):
        probe(FailsForOneToken(), HEADS, CPU, torch.float32)
