"""What every request to the blend worker shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kvchaos_blend.chunks import KeySpace
from kvchaos_blend.errors import PromptError
from kvchaos_blend.model import CausalModel
from kvchaos_blend.pool import KVPool
from kvchaos_blend.progress import Clock
from kvchaos_blend.scatter import HostMemory
from kvchaos_blend.store import ChunkStore
from kvchaos_blend.verify import Verifier


@dataclass(frozen=True, slots=True)
class Worker:
    """A model, its KV pool, and the store its chunks come from."""

    model: CausalModel
    pool: KVPool
    store: ChunkStore
    key_space: KeySpace
    verifier: Verifier
    host_memory: HostMemory
    clock: Clock
    attention_reason: str = ""
    """Why the model computes with its attention implementation; for status."""

    def check_prompt(self, token_ids: Sequence[int], new_tokens: int) -> None:
        """Raises PromptError, naming the fix, when the prompt cannot be used."""
        if not token_ids:
            raise PromptError("the prompt is empty; give at least one token")
        if new_tokens < 1:
            raise PromptError(f"{new_tokens} new tokens asked for; at least the first one is made")
        longest = len(token_ids) + new_tokens - 1
        if longest > self.model.max_positions:
            raise PromptError(
                f"{len(token_ids)} prompt tokens and {new_tokens} new ones need {longest} positions;"
                f" the model has {self.model.max_positions}"
            )
        unknown = next((token for token in token_ids if not 0 <= token < self.model.vocabulary), None)
        if unknown is not None:
            raise PromptError(
                f"token id {unknown} is not in the model's vocabulary of {self.model.vocabulary}"
            )

    def settle(self) -> None:
        """Waits for the device's queued work."""
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)
