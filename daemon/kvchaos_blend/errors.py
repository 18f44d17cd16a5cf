"""Every error that the blend worker raises on purpose.

KVChaosError (kvchaos.errors)
└── BlendError
    ├── PromptError      the prompt cannot be used
    ├── ModelError       the model is missing or not supported
    ├── StoreMismatch    the store holds objects of another shape under these keys
    ├── PoolFull         the KV pool has no room
    ├── TooManyRequests  as many requests are running as may
    └── Cancelled        the caller gave up
"""

from __future__ import annotations

from kvchaos.errors import KVChaosError


class BlendError(KVChaosError):
    """Base of every error that the blend worker raises on purpose."""


class PromptError(BlendError, ValueError):
    """The prompt cannot be used: empty, too long, or a token the model does not know."""


class ModelError(BlendError, ValueError):
    """The model is missing or not supported."""


class StoreMismatch(BlendError):
    """The store holds objects of another shape under these keys. Nothing has been scattered."""


class PoolFull(BlendError):
    """The KV pool has no room. Nothing has been taken from it.

    Attributes:
        needed_blocks: blocks asked for.
        free_blocks: blocks free now.
        total_blocks: blocks in the pool.
    """

    def __init__(self, needed_blocks: int, free_blocks: int, total_blocks: int, block_tokens: int) -> None:
        self.needed_blocks = needed_blocks
        self.free_blocks = free_blocks
        self.total_blocks = total_blocks
        super().__init__(
            f"the KV pool has {free_blocks} of {total_blocks} blocks of {block_tokens} tokens free and"
            f" {needed_blocks} are needed; wait for a running recovery to end or raise --pool-tokens"
        )


class TooManyRequests(BlendError):
    """As many requests are running as may."""


class Cancelled(BlendError):
    """The caller gave up, or its deadline has passed."""
