"""Tells everybody when a runtime value's time to live is over."""

from __future__ import annotations

import asyncio

from kvchaos_sidecar.rules.governor import Governor


async def announce_expiry(governor: Governor, interval_s: float = 0.25) -> None:
    """Runs until cancelled. The values end on time without it; only log and subscribers depend on it."""
    while True:
        await asyncio.sleep(interval_s)
        governor.expire()
