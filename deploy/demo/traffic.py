"""Prompts against a running LMCache server: store, look up, retrieve, compare.

Drives the client of LMCache's own ``lmcache bench server``, so that the traffic is what an engine sends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lmcache.cli.commands.bench.server_bench.client import RequestContext, ServerBenchClient
from lmcache.cli.commands.bench.server_bench.config import BenchConfig

KV_SHAPE = "(2,256,16,4,64):float16:4"
"""4 layers of 4 heads x 64 in float16, 256 blocks of 16 tokens: 1 MiB a chunk of 256 tokens."""
BLOCKS = 256
BLOCK_TOKENS = 16
CHUNK_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Served:
    """What the cache server made of one prompt."""

    asked: int
    """Full chunks in the prompt."""
    hit: int
    """Chunks that the server reported and delivered."""
    intact: bool
    """Whether every delivered chunk has the checksum it was stored with."""


class Traffic:
    """One engine's connection to the cache server."""

    def __init__(self, client: ServerBenchClient) -> None:
        self._client = client
        self._serial = itertools.count()
        self._stored: dict[int, list[str]] = {}

    def store(self, prompt: int) -> int:
        """Stores a prompt's chunks and remembers their checksums. Returns how many were stored.

        Raises RuntimeError when the server does not take them.
        """
        request = self._request(prompt)
        hits = self._client.lookup(request).hit_chunks
        start = hits * request.chunk_size
        missing = request.num_full_tokens - start
        self._stored[prompt] = self._client.compute_checksums(request, 0, request.num_full_tokens) or []
        result = self._client.store(request, start, missing)
        self._client.end_session(request)
        if result is not None and not result.succeeded:
            raise RuntimeError(f"the cache server did not store prompt {prompt}: {result}")
        return missing // request.chunk_size

    def recall(self, prompt: int) -> Served:
        """Looks a stored prompt up and retrieves what the server has."""
        request = self._request(prompt)
        hit = self._client.lookup(request).hit_chunks
        tokens = hit * request.chunk_size
        self._client.zero_destination(request, 0, tokens)
        retrieved = self._client.retrieve(request, 0, tokens)
        checksums = (self._client.compute_checksums(request, 0, tokens) or []) if tokens else []
        self._client.end_session(request)
        delivered = retrieved is None or retrieved.succeeded
        return Served(request.total_chunks, hit, delivered and checksums == self._stored[prompt][:hit])

    def _request(self, prompt: int) -> RequestContext:
        request = self._client.create_request(prompt, f"kvchaos-{prompt}-{next(self._serial)}", "demo")
        if request is None:
            raise ValueError("a prompt needs at least one full chunk")
        return request


@contextmanager
def connect(
    rpc_url: str, http_url: str, chunks: int, log: Callable[[str], None] = lambda line: None
) -> Iterator[Traffic]:
    """A connection for prompts of ``chunks`` full chunks each."""
    client = ServerBenchClient(
        BenchConfig(
            rpc_url=rpc_url,
            http_url=http_url,
            mode="cpu",
            transfer_mode="auto",
            tp_size=1,
            use_mla=False,
            num_tokens=chunks * CHUNK_TOKENS,
            kvcache_shape_spec=KV_SHAPE,
            num_blocks=BLOCKS,
            block_size=BLOCK_TOKENS,
        ),
        log,
    )
    client.start()
    try:
        yield Traffic(client)
    finally:
        client.close()
