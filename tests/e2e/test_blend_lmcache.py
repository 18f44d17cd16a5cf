"""The blend worker and a real LMCache server share chunks: same keys, same sizes, same bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from deploy.demo.traffic import BLOCK_TOKENS, BLOCKS, CHUNK_TOKENS, KV_SHAPE
from lmcache.cli.commands.bench.server_bench.client import RequestContext, ServerBenchClient
from lmcache.cli.commands.bench.server_bench.config import BenchConfig
from tests.harness.blend import make_worker, random_model
from tests.harness.lmcache import LMCacheServer, plugin_spec
from tests.harness.sidecar import SidecarProcess
from tests.harness.waiting import eventually
from transformers import LlamaConfig

from kvchaos.client import L2Client
from kvchaos.results import Result
from kvchaos_blend.chunks import KeySpace, chunk_hashes
from kvchaos_blend.l2 import L2Store
from kvchaos_blend.loading import LoadedModel
from kvchaos_blend.plan import Policy, Run
from kvchaos_blend.prefill import store_prompt
from kvchaos_blend.recover import RecoverRequest, recover
from kvchaos_blend.reference import Reference
from kvchaos_blend.scatter import Staging, scatter
from kvchaos_blend.worker import Worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CHUNKS = 4
LMCACHE_BENCH_MODEL = "test-model"
"""The model name that LMCache's bench client puts into its keys."""


@pytest.fixture
def lmcache_server(fs_sidecar: SidecarProcess, tmp_path: Path) -> Iterator[LMCacheServer]:
    server = LMCacheServer([plugin_spec(fs_sidecar.cache_target)], tmp_path / "lmcache.log")
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture
def engine(lmcache_server: LMCacheServer) -> Iterator[ServerBenchClient]:
    """An engine's side of the cache server, with its own KV tensors."""
    config = BenchConfig(
        rpc_url=lmcache_server.rpc_url,
        http_url=lmcache_server.http_url,
        mode="cpu",
        transfer_mode="auto",
        tp_size=1,
        use_mla=False,
        num_tokens=CHUNKS * CHUNK_TOKENS,
        kvcache_shape_spec=KV_SHAPE,
        num_blocks=BLOCKS,
        block_size=BLOCK_TOKENS,
    )
    client = ServerBenchClient(config, lambda line: None)
    client.start()
    yield client
    client.close()


def model_of_the_engines_shape(largest_token: int) -> LoadedModel:
    config = LlamaConfig(
        vocab_size=largest_token + 1,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=64,
        initializer_range=0.2,
    )
    return random_model(config, torch.float16)


def make_blend_worker(client: L2Client, request: RequestContext) -> Worker:
    worker = make_worker(
        model_of_the_engines_shape(max(request.token_ids)),
        L2Store(client),
        chunk_tokens=CHUNK_TOKENS,
        pool_tokens=len(request.token_ids) + 64,
    )
    return dataclasses.replace(worker, key_space=KeySpace(LMCACHE_BENCH_MODEL, CHUNK_TOKENS))


def engine_kv(engine: ServerBenchClient, request: RequestContext) -> torch.Tensor:
    """What the engine's own tensors hold for the request: [layers, 2, tokens, heads, head_dim]."""
    first, last = request.block_offset, request.block_offset + request.num_blocks
    tensors = engine._workers[0].kv_caches.values()
    return torch.stack([tensor[:, first:last].flatten(1, 2) for tensor in tensors])


def test_what_lmcache_stored_is_loaded_by_the_worker(
    fs_sidecar: SidecarProcess, engine: ServerBenchClient
) -> None:
    request = engine.create_request(1, "stored-by-lmcache", "test")
    assert request is not None
    with L2Client(fs_sidecar.cache_target, "blend") as client:
        assert client.wait_connected()
        worker = make_blend_worker(client, request)
        engine.lookup(request)
        engine.store(request, 0, request.num_full_tokens)
        keys = worker.key_space.keys(chunk_hashes(request.token_ids, CHUNK_TOKENS), rank=0)

        def all_there() -> bool:
            entries = client.list_keys().result().entries
            return {key for key, _ in entries} == set(keys)

        eventually(all_there, "LMCache stores under the hashes that the worker computes")
        size = worker.pool.geometry.object_bytes(CHUNK_TOKENS, ranks=1)
        assert {found for _, found in client.list_keys().result().entries} == {size}
        report = recover(worker, RecoverRequest(request.token_ids, Policy.SEGMENTED_PREFIX))
        assert report.plan.kept_chunks == tuple(range(CHUNKS))
        loaded = loaded_kv(worker, client, request)
    assert torch.equal(loaded, engine_kv(engine, request))


def loaded_kv(worker: Worker, client: L2Client, request: RequestContext) -> torch.Tensor:
    """The stored chunks, scattered into the worker's pool and read back."""
    staging = Staging(worker.pool.geometry, CHUNKS, CHUNK_TOKENS, ranks=1, host=worker.host_memory)
    keys = worker.key_space.keys(chunk_hashes(request.token_ids, CHUNK_TOKENS), rank=0)
    assert client.load(keys, staging.buffers(0)).result() == [Result.OK] * CHUNKS
    with worker.pool.lend(request.num_full_tokens) as table:
        for chunk in range(CHUNKS):
            run = Run(chunk * CHUNK_TOKENS, (chunk + 1) * CHUNK_TOKENS)
            scatter(worker.pool, table, run, staging.objects[:, chunk])
        return worker.pool.read(table.slots[: request.num_full_tokens])


def test_what_the_worker_stored_is_retrieved_by_lmcache(
    fs_sidecar: SidecarProcess, engine: ServerBenchClient
) -> None:
    request = engine.create_request(2, "stored-by-the-worker", "test")
    assert request is not None
    with L2Client(fs_sidecar.cache_target, "blend") as client:
        assert client.wait_connected()
        worker = make_blend_worker(client, request)
        assert store_prompt(worker, request.token_ids).stored == CHUNKS
        exact = Reference(worker.model.hf_model).prefill(request.token_ids, 1).kv
    assert engine.lookup(request).hit_chunks == CHUNKS
    engine.zero_destination(request, 0, request.num_full_tokens)
    retrieved = engine.retrieve(request, 0, request.num_full_tokens)
    assert retrieved is None or retrieved.succeeded
    torch.testing.assert_close(engine_kv(engine, request), exact[:, :, : request.num_full_tokens])
