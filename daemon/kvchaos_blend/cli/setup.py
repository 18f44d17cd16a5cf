"""From command-line arguments to a worker."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from kvchaos.client import L2Client
from kvchaos.errors import ConfigError
from kvchaos_blend.attention.choose import NAMES, choose_attention, require_known
from kvchaos_blend.chunks import DEFAULT_CHUNK_TOKENS, KeySpace
from kvchaos_blend.l2 import L2Store
from kvchaos_blend.loading import choose_device, choose_dtype, load
from kvchaos_blend.model import CausalModel, heads_of
from kvchaos_blend.plan import Policy
from kvchaos_blend.pool import DEFAULT_BLOCK_TOKENS, KVPool
from kvchaos_blend.scatter import HostMemory
from kvchaos_blend.verify import Verifier
from kvchaos_blend.worker import Worker

DEFAULT_TARGET = "unix:/run/kvchaos/cache.sock"
DEFAULT_POOL_TOKENS = 16384
DEFAULT_STORE_TIMEOUT_S = 60.0


def add_worker_arguments(parser: ArgumentParser) -> None:
    """Adds what describes the model, the store and the pool."""
    model = parser.add_argument_group("model")
    model.add_argument("--model", required=True, help="Hugging Face id, local directory or GGUF file")
    model.add_argument("--dtype", default="float32", help="float32, bfloat16 or float16 (default: float32)")
    model.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    model.add_argument("--attention", default="auto", help=f"{', '.join(NAMES)} (default: auto)")
    model.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: torch's choice)")
    model.add_argument("--allow-download", action="store_true", help="fetch a model that is not here")
    store = parser.add_argument_group("store")
    store.add_argument(
        "--target",
        default=os.environ.get("KVCHAOS_CACHE_TARGET", DEFAULT_TARGET),
        help=f"cache listener of the sidecar (default: KVCHAOS_CACHE_TARGET or {DEFAULT_TARGET})",
    )
    store.add_argument("--token-file", type=Path, metavar="FILE", help="bearer token for the sidecar")
    store.add_argument(
        "--store-timeout",
        type=float,
        default=DEFAULT_STORE_TIMEOUT_S,
        metavar="SECONDS",
        help=f"how long one call to the sidecar may take (default: {DEFAULT_STORE_TIMEOUT_S:g})",
    )
    store.add_argument("--model-name", help="the model's name in object keys (default: that of --model)")
    store.add_argument(
        "--chunk-tokens",
        type=int,
        default=DEFAULT_CHUNK_TOKENS,
        metavar="N",
        help=f"tokens in a chunk, as the cache server has it (default: {DEFAULT_CHUNK_TOKENS})",
    )
    store.add_argument("--cache-salt", default="", metavar="SALT", help="isolation salt of the keys")
    store.add_argument("--ranks", type=int, default=1, metavar="N", help="tensor-parallel ranks of the keys")
    pool = parser.add_argument_group("pool")
    pool.add_argument(
        "--pool-tokens",
        type=int,
        default=DEFAULT_POOL_TOKENS,
        metavar="N",
        help=f"tokens of KV that all requests together may hold (default: {DEFAULT_POOL_TOKENS})",
    )
    pool.add_argument(
        "--block-tokens",
        type=int,
        default=DEFAULT_BLOCK_TOKENS,
        metavar="N",
        help=f"tokens in a block of the pool (default: {DEFAULT_BLOCK_TOKENS})",
    )


def add_policy_arguments(parser: ArgumentParser) -> None:
    """Adds the choice of a policy."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--enable-segmented-prefix",
        action="store_const",
        const=Policy.SEGMENTED_PREFIX,
        default=Policy.PREFIX,
        dest="policy",
        help="keep everything found and recompute only the gaps (default: keep what is before the first)",
    )
    group.add_argument(
        "--full-prefill",
        action="store_const",
        const=Policy.FULL_PREFILL,
        dest="policy",
        help="keep nothing; the baseline",
    )


@contextmanager
def open_worker(arguments: Namespace) -> Iterator[tuple[Worker, L2Client]]:
    """A worker, with its connection to the sidecar, which may still be under way or fail.

    Raises:
        BlendError, ConfigError, ValueError: an argument is wrong; the message names it.
    """
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    client = L2Client(
        arguments.target,
        f"kvchaos-blend:{os.getpid()}",
        token=_token(arguments.token_file),
        timeout_s=arguments.store_timeout,
    )
    with client:
        yield _worker(arguments, client), client


def _worker(arguments: Namespace, client: L2Client) -> Worker:
    key_space = KeySpace(
        arguments.model_name or arguments.model, arguments.chunk_tokens, arguments.cache_salt, arguments.ranks
    )
    device, dtype = choose_device(arguments.device), choose_dtype(arguments.dtype)
    require_known(arguments.attention)
    loaded = load(arguments.model, dtype, device, arguments.allow_download)
    attention, attention_reason = choose_attention(
        arguments.attention, heads_of(loaded.hf_model.config), device, dtype
    )
    model = CausalModel(loaded, attention)
    model.geometry.heads_per_rank(arguments.ranks)
    return Worker(
        model=model,
        pool=KVPool(model.geometry, arguments.pool_tokens, device, arguments.block_tokens),
        store=L2Store(client),
        key_space=key_space,
        verifier=Verifier(model, arguments.chunk_tokens),
        host_memory=HostMemory(pinned=device.type == "cuda"),
        clock=time.perf_counter,
        attention_reason=attention_reason,
    )


def _token(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text().strip()
    except OSError as error:
        raise ConfigError([f"--token-file {path}: {error.strerror}"]) from error
