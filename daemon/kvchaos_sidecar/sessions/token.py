"""The one-time token that ties a handoff connection to its session."""

from __future__ import annotations

import hmac
import secrets

from kvchaos_sidecar.clock import Clock

TOKEN_TTL_S = 30.0
"""A client connects right after it opened the session."""


class HandoffToken:
    """A secret that can be redeemed once, for a while.

    Attributes:
        value: the secret, 32 bytes.
    """

    def __init__(self, clock: Clock, time_to_live_s: float = TOKEN_TTL_S) -> None:
        self.value = secrets.token_bytes(32)
        self._clock = clock
        self._deadline = clock.monotonic() + time_to_live_s
        self._used = False

    def redeem(self, presented: bytes) -> bool:
        """Whether ``presented`` is the token, in time and for the first time."""
        genuine = hmac.compare_digest(self.value, presented)
        if not genuine or self._used or self._clock.monotonic() >= self._deadline:
            return False
        self._used = True
        return True
