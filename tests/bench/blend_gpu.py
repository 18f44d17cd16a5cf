"""Recovery on a GPU by a model of Llama-3-8B's shape with random weights.

    python -m tests.bench.blend_gpu                              # on a CUDA device, N = 32,768
    python -m tests.bench.blend_gpu --shape tiny --tokens 1280 --device cpu --dtype float32

Prints one JSON document. "resident" times start with every surviving chunk already in the pool, so that only
computing counts; "linked" times are whole recoveries from a store in host memory, so that copying it in
counts too. Every attention implementation that this machine has is first held to a mask written out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoModelForCausalLM, LlamaConfig

from kvchaos.results import Result
from kvchaos_blend.attention.choose import NAMES, choose_attention
from kvchaos_blend.attention.contract import Heads, LayerPages, PagedAttention
from kvchaos_blend.chunks import KeySpace, chunk_hashes
from kvchaos_blend.geometry import DTYPES, KVGeometry
from kvchaos_blend.loading import LoadedModel, choose_device
from kvchaos_blend.memory_store import MemoryStore
from kvchaos_blend.model import CausalModel, heads_of
from kvchaos_blend.plan import Policy, Run
from kvchaos_blend.pool import KVPool
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.scatter import HostMemory
from kvchaos_blend.verify import CANARY_TOKENS, Verifier
from kvchaos_blend.worker import Worker
from tests.bench.parts.blend import computed_runs, gap_chunks, shape_of
from tests.harness.blend import prompt

SHAPES = {
    "llama-3-8b": {
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    },
    "tiny": {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
}
CASES = {"one in the middle": (256, "one in the middle"), "10 % at random": (128, "10 % at random")}
"""Name: tokens in a chunk, and which chunks are missing."""
_HEADS = Heads(query=8, kv=2, dim=128)
ATTENTION_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}


def main(words: Sequence[str] | None = None) -> int:
    """Runs the measurements. Fails when an attention implementation or a verification does."""
    options = _parser().parse_args(words)
    device, dtype = choose_device(options.device), DTYPES[options.dtype]
    document: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "shape": options.shape,
        "tokens": options.tokens,
        "dtype": options.dtype,
        "attention_error": attention_errors(device, dtype),
    }
    loaded = build(options.shape, options.tokens, device, dtype)
    heads = heads_of(loaded.hf_model.config)
    attention, document["attention_reason"] = choose_attention(options.attention, heads, device, dtype)
    document["attention"] = attention.name
    document["cases"] = {
        name: measure(loaded, attention, options, chunk_tokens, gap)
        for name, (chunk_tokens, gap) in CASES.items()
    }
    print(json.dumps(document, indent=2))
    return 0 if _all_good(document, dtype) else 1


def attention_errors(device: torch.device, dtype: torch.dtype) -> dict[str, float | str]:
    """For each implementation, its largest deviation from dense attention; or why it is not here."""
    errors: dict[str, float | str] = {}
    for name in NAMES[1:]:
        try:
            attention, _ = choose_attention(name, _HEADS, device, dtype)
            errors[name] = _attention_error(attention, device, dtype)
        except ValueError as error:
            errors[name] = str(error)
    return errors


def _attention_error(attention: PagedAttention, device: torch.device, dtype: torch.dtype) -> float:
    heads, kv_heads, head_dim = _HEADS
    tokens = 1000
    runs = [Run(256, 512), Run(700, 701), Run(900, 1000)]
    generator = torch.Generator(device).manual_seed(0)
    pool = KVPool(KVGeometry(1, kv_heads, head_dim, dtype), tokens + 200, device)
    shape = (tokens, kv_heads, head_dim)
    keys, values = (torch.randn(shape, generator=generator, device=device).to(dtype) for _ in range(2))
    positions = torch.cat([torch.arange(run.start, run.end, device=device) for run in runs])
    query = torch.randn((len(positions), heads, head_dim), generator=generator, device=device).to(dtype)
    with pool.lend(100), pool.lend(tokens) as table:
        pool.write(0, table.slots[:tokens], keys, values)
        prepared = attention.prepare(runs, table)
        pages = LayerPages(pool.pages[0, 0], pool.pages[0, 1])
        output = attention.attend(query, pages, prepared, head_dim**-0.5, None)
    visible = positions[:, None] >= torch.arange(tokens, device=device)
    wide = [part.double().transpose(0, 1)[None] for part in (query, keys, values)]
    exact = scaled_dot_product_attention(*wide, attn_mask=visible, enable_gqa=True)[0].transpose(0, 1)
    return float((output.double() - exact).abs().max())


def build(shape: str, tokens: int, device: torch.device, dtype: torch.dtype) -> LoadedModel:
    """The model, with random weights, on the device."""
    config = LlamaConfig(**SHAPES[shape], max_position_embeddings=tokens + 64)
    torch.manual_seed(0)
    with device:
        hf_model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return LoadedModel(hf_model.eval(), None, shape)


def measure(
    loaded: LoadedModel, attention: PagedAttention, options: argparse.Namespace, chunk_tokens: int, gap: str
) -> dict[str, Any]:
    """Resident and linked times of the three policies, and a verification."""
    store = MemoryStore()
    worker = make_worker(loaded, attention, store, options, chunk_tokens)
    token_ids = prompt(options.tokens, vocabulary=worker.model.vocabulary)
    store_prompt(worker, token_ids)
    hashes = chunk_hashes(token_ids, chunk_tokens)
    lost = gap_chunks(gap, len(hashes))
    for key in worker.key_space.keys([hashes[chunk] for chunk in lost], rank=0):
        store.load_faults[key] = Result.DROPPED
    document: dict[str, Any] = {"chunk_tokens": chunk_tokens, "missing_chunks": lost, "policies": {}}
    for policy in Policy:
        document["policies"][policy.value] = _times(worker, token_ids, policy, options.rounds)
    report = recover(worker, RecoverRequest(token_ids, Policy.SEGMENTED_PREFIX, verify=options.verify))
    if report.verification is not None:
        document["gates"] = {
            gate.name: [gate.passed, gate.measured, gate.limit] for gate in report.verification.gates
        }
    store.close()
    return document


def make_worker(
    loaded: LoadedModel,
    attention: PagedAttention,
    store: MemoryStore,
    options: argparse.Namespace,
    chunk_tokens: int,
) -> Worker:
    """A worker whose pool holds the prompt and what verification needs beside it."""
    model = CausalModel(loaded, attention)
    pool_tokens = options.tokens + 2 * CANARY_TOKENS + 64
    return Worker(
        model=model,
        pool=KVPool(model.geometry, pool_tokens, model.device),
        store=store,
        key_space=KeySpace("bench", chunk_tokens),
        verifier=Verifier(model, chunk_tokens),
        host_memory=HostMemory(pinned=model.device.type == "cuda"),
        clock=time.perf_counter,
    )


def _times(worker: Worker, token_ids: tuple[int, ...], policy: Policy, rounds: int) -> dict[str, float]:
    reports = [recover(worker, RecoverRequest(token_ids, policy)) for _ in range(rounds + 1)][1:]
    runs = computed_runs(reports[0].plan)
    resident_s = [_resident_s(worker, token_ids, runs) for _ in range(rounds + 1)][1:]
    return {
        "linked_s": median(report.total_s for report in reports),
        "resident_s": median(resident_s),
        "load_s": median(report.phase_s.get("load", 0.0) for report in reports),
        "scatter_s": median(report.phase_s.get("scatter", 0.0) for report in reports),
        "loaded_bytes": reports[0].loaded_bytes,
        "computed_tokens": sum(run.tokens for run in runs),
        "tflop": shape_of(worker.model).flops(runs) / 1e12,
    }


def _resident_s(worker: Worker, token_ids: tuple[int, ...], runs: Sequence[Run]) -> float:
    """Time of one pass over the runs, with whatever lies between them in the pool already."""
    with worker.pool.lend(len(token_ids)) as table:
        worker.pool.fill(table, 0.5)
        worker.settle()
        began_s = worker.clock()
        worker.model.compute(token_ids, runs, worker.pool, table, want_logits=True)
        worker.settle()
        return worker.clock() - began_s


def _all_good(document: dict[str, Any], dtype: torch.dtype) -> bool:
    limit = ATTENTION_TOLERANCE[dtype]
    errors = [error for error in document["attention_error"].values() if isinstance(error, float)]
    gates = [gate for case in document["cases"].values() for gate in case.get("gates", {}).values()]
    return all(error <= limit for error in errors) and all(passed for passed, _, _ in gates)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.blend_gpu", description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="llama-3-8b")
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--attention", choices=NAMES, default="auto")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--verify", action="store_true", help="also verify; takes a float32 copy of the weights"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
