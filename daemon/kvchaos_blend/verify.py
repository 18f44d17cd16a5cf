"""The proof that a recovery gave what a full prefill would have given.

First tokens, logits and text prove little: a wrong mask or a zeroed gap often keeps them. So the gates look
at the recomputed KV itself, layer by layer, and at what must not have changed at all.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, starmap

import torch

from kvchaos_blend.model import CausalModel
from kvchaos_blend.plan import Run
from kvchaos_blend.pool import BlockTable, KVPool
from kvchaos_blend.reference import Checkpoint, Prefill, Reference
from kvchaos_blend.report import Gate, LayerError, Verification
from kvchaos_blend.scatter import gather

MIN_GREEDY_TOKENS = 32
FLOAT32_LIMIT = 1e-6
"""Relative error of single-precision KV against a full prefill that is always fine, per layer and run."""
FLOAT32_RATIO_LIMIT = 10.0
"""Where rounding alone exceeds that (a few tokens amplify it): error over that of chunked prefill. Both are
then samples of the same noise, orders of magnitude below any bug."""
REDUCED_RATIO_LIMIT = 2.0
"""Error in reduced precision over that of chunked prefill, both against float32, per layer and run."""
NEAR_TIE_ULPS = 4
"""Two logits this many units in the last place apart, or fewer, may swap in reduced precision."""
CANARY = 1234.5
CANARY_TOKENS = 32
"""Size of the neighbour that a recovery must not touch."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A loaded chunk as the store delivered it."""

    run: Run
    """Its positions, without those that were computed again."""
    objects: torch.Tensor
    """[ranks, 2, layers, tokens, heads_of_rank * head_dim], of at least the run's tokens."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a recovery left behind."""

    token_ids: tuple[int, ...]
    computed: tuple[Run, ...]
    """Positions whose KV was recomputed."""
    delivered: tuple[Delivered, ...]
    tokens: tuple[int, ...]
    """The greedy continuation, at least 32 tokens."""
    table: BlockTable
    canary: BlockTable


@dataclass(frozen=True, slots=True)
class _References:
    """What the KV of one prompt is held to."""

    prefill: Prefill
    """A full prefill in the same precision, and its greedy continuation."""
    exact: torch.Tensor
    """The KV to compare with, in single precision."""
    yardstick: torch.Tensor
    """That of chunked prefill."""


class Verifier:
    """Holds the reference views of one model's weights. Checks of several requests take turns."""

    def __init__(self, model: CausalModel, chunk_tokens: int, keep_last: bool = False) -> None:
        """
        Args:
            model: what recovers.
            chunk_tokens: tokens in a chunk.
            keep_last: keep what the last prompt was compared with, up to three times its KV, for the next
                recovery of the same prompt.
        """
        self._model = model
        self._chunk_tokens = chunk_tokens
        self._keep_last = keep_last
        self._last: tuple[object, _References] | None = None
        self._turn = threading.Lock()

    @cached_property
    def _same_dtype(self) -> Reference:
        return Reference(self._model.hf_model)

    @cached_property
    def _wide(self) -> Reference:
        return self._same_dtype.in_float32()

    def arm(self, pool: KVPool, table: BlockTable, canary: BlockTable) -> None:
        """Poisons every slot of the request with NaN and fills its neighbours with a pattern."""
        pool.fill(table, float("nan"))
        pool.fill(canary, CANARY)

    def check(self, pool: KVPool, evidence: Evidence, checkpoint: Checkpoint = lambda: None) -> Verification:
        """All gates, passed or not. What ``checkpoint`` raises, called before every layer, ends the check."""
        recovered = pool.read(evidence.table.slots[: len(evidence.token_ids)])
        with self._turn:
            references = self._references(evidence, checkpoint)
        exact, yardstick = references.exact, references.yardstick
        loaded = tuple(piece.run for piece in evidence.delivered)
        gates = (
            _bytes_gate(pool, evidence),
            _canary_gate(pool, evidence),
            _filled_gate(recovered),
            _error_gate("recomputed_kv", recovered, exact, yardstick, evidence.computed),
            _error_gate("loaded_kv", recovered, exact, yardstick, loaded),
            _greedy_gate(references.prefill, evidence.tokens, pool.geometry.dtype),
        )
        return Verification(gates, layer_errors(recovered, exact, evidence.computed))

    def _references(self, evidence: Evidence, checkpoint: Checkpoint) -> _References:
        pieces = self._pieces(evidence)
        wanted = (evidence.token_ids, len(evidence.tokens), tuple(pieces))
        if self._last is not None and self._last[0] == wanted:
            return self._last[1]
        references = self._compute_references(evidence, pieces, checkpoint)
        if self._keep_last:
            self._last = (wanted, references)
        return references

    def _compute_references(
        self, evidence: Evidence, pieces: Sequence[Run], checkpoint: Checkpoint
    ) -> _References:
        token_ids = evidence.token_ids
        prefill = self._same_dtype.prefill(token_ids, len(evidence.tokens), checkpoint)
        exact = prefill.kv
        if exact.dtype != torch.float32:
            exact = self._wide.prefill(token_ids, 1, checkpoint).kv
        return _References(prefill, exact, self._same_dtype.chunked_kv(token_ids, pieces, checkpoint))

    def _pieces(self, evidence: Evidence) -> list[Run]:
        """The prompt, cut where chunks and recomputed runs begin and end."""
        prompt_tokens = len(evidence.token_ids)
        edges = {*range(0, prompt_tokens, self._chunk_tokens), prompt_tokens}
        edges.update(edge for run in evidence.computed for edge in run)
        return list(starmap(Run, pairwise(sorted(edges))))


def layer_errors(actual: torch.Tensor, exact: torch.Tensor, runs: Sequence[Run]) -> tuple[LayerError, ...]:
    """The relative error of each layer's K and V, the worst over the runs; NaN counts as infinite.

    Args:
        actual: [layers, 2, tokens, kv_heads, head_dim].
        exact: the same shape.
        runs: positions to compare.
    """
    if not runs:
        return ()
    by_run = [_relative_error(actual, exact, run) for run in runs]
    worst = torch.stack(by_run).amax(dim=0)
    return tuple(LayerError(layer, key, value) for layer, (key, value) in enumerate(worst.tolist()))


def _relative_error(actual: torch.Tensor, exact: torch.Tensor, run: Run) -> torch.Tensor:
    """[layers, 2] float64 on the host."""
    a = actual[:, :, run.start : run.end].flatten(2).double()
    b = exact[:, :, run.start : run.end].flatten(2).double()
    error: torch.Tensor = (a - b).norm(dim=2) / b.norm(dim=2)
    return error.nan_to_num(nan=torch.inf, posinf=torch.inf).cpu()


def _error_gate(
    name: str, recovered: torch.Tensor, exact: torch.Tensor, yardstick: torch.Tensor, runs: Sequence[Run]
) -> Gate:
    errors = _flat(layer_errors(recovered, exact, runs))
    worst = max(errors, default=0.0)
    if recovered.dtype == torch.float32 and worst <= FLOAT32_LIMIT:
        return Gate(name, True, worst, FLOAT32_LIMIT, "relative to a full prefill")
    usual = _flat(layer_errors(yardstick, exact, runs))
    ratio = max((error / max(u, FLOAT32_LIMIT) for error, u in zip(errors, usual, strict=True)), default=0.0)
    detail = f"relative error over that of chunked prefill; the worst error is {worst:.2g}"
    limit = FLOAT32_RATIO_LIMIT if recovered.dtype == torch.float32 else REDUCED_RATIO_LIMIT
    return Gate(name, ratio <= limit, ratio, limit, detail)


def _flat(errors: Sequence[LayerError]) -> list[float]:
    return [value for error in errors for value in (error.key, error.value)]


def _bytes_gate(pool: KVPool, evidence: Evidence) -> Gate:
    changed = sum(not _same_bytes(pool, evidence.table, piece) for piece in evidence.delivered)
    return Gate("loaded_bytes", changed == 0, changed, 0, "loaded chunks that differ from what was delivered")


def _same_bytes(pool: KVPool, table: BlockTable, piece: Delivered) -> bool:
    there = gather(pool, table, piece.run, piece.objects.shape[0])
    here = piece.objects[:, :, :, : piece.run.tokens].contiguous()
    return torch.equal(there.view(torch.uint8), here.view(torch.uint8))


def _canary_gate(pool: KVPool, evidence: Evidence) -> Gate:
    canary = pool.read(evidence.canary.slots)
    written = int((canary != CANARY).sum())
    past_end = len(evidence.token_ids) + len(evidence.tokens) - 1
    spare = pool.read(evidence.table.slots[past_end:])
    written += int((~spare.isnan()).sum())
    return Gate("canaries", written == 0, written, 0, "values written outside the request's own positions")


def _filled_gate(recovered: torch.Tensor) -> Gate:
    unfilled = int((~recovered.isfinite()).sum())
    return Gate("filled", unfilled == 0, unfilled, 0, "values of the prompt left unfilled, or not finite")


def _greedy_gate(prefill: Prefill, tokens: Sequence[int], dtype: torch.dtype) -> Gate:
    pairs = zip(prefill.tokens, tokens, strict=True)
    fork = next((step for step, (expected, got) in enumerate(pairs) if expected != got), None)
    if fork is None:
        return Gate("greedy_tokens", True, 0, 0, f"{len(tokens)} tokens equal")
    logits = prefill.logits[fork]
    margin = float(logits[prefill.tokens[fork]] - logits[tokens[fork]])
    limit = 0.0
    if dtype != torch.float32:
        limit = NEAR_TIE_ULPS * torch.finfo(dtype).eps * float(logits.abs().max())
    detail = f"token {fork} is {tokens[fork]} instead of {prefill.tokens[fork]}; margin of the logits"
    return Gate("greedy_tokens", dtype != torch.float32 and margin <= limit, margin, limit, detail)
