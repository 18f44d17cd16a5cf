"""Recovery of a prompt with gaps by SmolLM2 on the CPU: full prefill, PREFIX and SEGMENTED_PREFIX in turn.

Chunks come from a real sidecar over a directory in memory; it drops the chunks of the gap. One prompt serves
all lengths, because a prefix of it has the same chunk hashes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median

import torch

from kvchaos.client import L2Client
from kvchaos.control import ControlClient
from kvchaos_blend.attention.sdpa_gaps import SdpaGaps
from kvchaos_blend.chunks import KeySpace
from kvchaos_blend.flops import ModelShape
from kvchaos_blend.l2 import L2Store
from kvchaos_blend.loading import load
from kvchaos_blend.model import CausalModel
from kvchaos_blend.plan import Plan, Policy, Run, merge, subtract
from kvchaos_blend.pool import KVPool
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.report import RecoveryReport
from kvchaos_blend.scatter import HostMemory
from kvchaos_blend.verify import Verifier
from kvchaos_blend.worker import Worker
from tests.bench.results import Results, Row
from tests.bench.services import directory, sidecar
from tests.harness.blend import prompt, smollm2_gguf

TITLE = "Recovery of a prompt with gaps"

FULL, PREFIX, SEGMENTED = "full prefill", "PREFIX", "SEGMENTED_PREFIX"
GAPS = ("one in the middle", "10 % at random", "first chunk", "last chunk")

_CHUNK_TOKENS = 256
_LENGTHS = (512, 1024, 2048, 4096, 8192)
_LENGTHS_SHORT = (512, 2048)
_SEED = 7
_TIMEOUT_S = 120.0


def gap_chunks(gap: str, chunks: int) -> list[int]:
    """The positions of the chunks that are missing, of a prompt of so many."""
    if gap == "one in the middle":
        return [round(0.5 * (chunks - 1))]
    if gap == "first chunk":
        return [0]
    if gap == "last chunk":
        return [chunks - 1]
    drawn = random.Random(_SEED).sample(range(chunks), max(1, round(0.1 * chunks)))
    return sorted(drawn)


def computed_runs(plan: Plan) -> Sequence[Run]:
    """What a recovery computes: the plan's runs, and the last token in any case."""
    last = Run(plan.prompt_tokens - 1, plan.prompt_tokens)
    return merge([*subtract(plan.computed_runs, [last]), last])


def shape_of(model: CausalModel) -> ModelShape:
    """The numbers of the model that the cost depends on."""
    config, geometry = model.hf_model.config, model.geometry
    return ModelShape(
        layers=geometry.layers,
        hidden=config.hidden_size,
        query_heads=config.num_attention_heads,
        kv_heads=geometry.kv_heads,
        head_dim=geometry.head_dim,
        intermediate=config.intermediate_size,
    )


def run(results: Results, short: bool) -> None:
    """Measures every length and gap, the three policies in turn."""
    lengths = _LENGTHS_SHORT if short else _LENGTHS
    with _stage(max(lengths)) as (worker, control):
        token_ids = prompt(max(lengths), vocabulary=worker.model.vocabulary)
        report = store_prompt(worker, token_ids)
        if report.failed:
            raise RuntimeError(f"the prompt could not be stored: {report.failed}")
        shape = shape_of(worker.model)
        for length in lengths:
            rounds = _rounds(length, short)
            results.add(_measure(worker, control, shape, token_ids[:length], rounds))


def _rounds(length: int, short: bool) -> int:
    if short or length > 2048:
        return 2
    return 5 if length <= 1024 else 3


def _measure(
    worker: Worker, control: ControlClient, shape: ModelShape, token_ids: tuple[int, ...], rounds: int
) -> list[Row]:
    taken: dict[tuple[str, str], list[RecoveryReport]] = {}
    for number in range(rounds + 1):
        for gap, side, report in _one_round(worker, control, token_ids):
            if number > 0:
                taken.setdefault((gap, side), []).append(report)
    return [
        Row(_case(len(token_ids), gap), side, _values(reports, shape))
        for gap in GAPS
        for side in (FULL, PREFIX, SEGMENTED)
        for reports in [taken[gap if side != FULL else "", side]]
    ]


def _one_round(
    worker: Worker, control: ControlClient, token_ids: tuple[int, ...]
) -> Iterator[tuple[str, str, RecoveryReport]]:
    yield "", FULL, recover(worker, RecoverRequest(token_ids, Policy.FULL_PREFILL))
    for gap in GAPS:
        control.set_faults(gap_indices=gap_chunks(gap, len(token_ids) // _CHUNK_TOKENS))
        for side, policy in ((PREFIX, Policy.PREFIX), (SEGMENTED, Policy.SEGMENTED_PREFIX)):
            yield gap, side, recover(worker, RecoverRequest(token_ids, policy))


def _case(tokens: int, gap: str) -> Mapping[str, object]:
    lost = gap_chunks(gap, tokens // _CHUNK_TOKENS)
    return {"tokens": tokens, "gap": gap, "gap_tokens": len(lost) * _CHUNK_TOKENS}


def _values(reports: Sequence[RecoveryReport], shape: ModelShape) -> dict[str, float]:
    plan = reports[0].plan
    return {
        "median_s": median(report.total_s for report in reports),
        "model_s": median(_phases(report, "recompute", "last_token") for report in reports),
        "load_s": median(_phases(report, "load") for report in reports),
        "scatter_s": median(_phases(report, "scatter") for report in reports),
        "overhead_share": median(_overhead_share(report) for report in reports),
        "computed_tokens": sum(run.tokens for run in computed_runs(plan)),
        "flops": shape.flops(computed_runs(plan)),
        "rounds": len(reports),
    }


def _phases(report: RecoveryReport, *names: str) -> float:
    return sum(report.phase_s.get(name, 0.0) for name in names)


def _overhead_share(report: RecoveryReport) -> float:
    """What is neither loading, scattering nor the model's work, over the whole."""
    return 1.0 - _phases(report, "load", "scatter", "recompute", "last_token") / report.total_s


@contextmanager
def _stage(tokens: int) -> Iterator[tuple[Worker, ControlClient]]:
    device = torch.device("cpu")
    model = CausalModel(load(str(smollm2_gguf()), torch.float32, device), SdpaGaps())
    with (
        directory() as store,
        sidecar({"type": "fs", "base_path": str(store)}) as process,
        ControlClient(process.control_target) as control,
        L2Client(process.cache_target, "bench", timeout_s=_TIMEOUT_S) as client,
    ):
        client.wait_connected()
        key_space = KeySpace("smollm2", _CHUNK_TOKENS)
        yield (
            Worker(
                model=model,
                pool=KVPool(model.geometry, tokens, device),
                store=L2Store(client),
                key_space=key_space,
                verifier=Verifier(model, _CHUNK_TOKENS),
                host_memory=HostMemory(pinned=False),
                clock=time.perf_counter,
            ),
            control,
        )
