"""The version of the protocol between a client and a sidecar, and what to say when two do not fit."""

from __future__ import annotations

from kvchaos import __version__

PROTOCOL_VERSION = 1
"""Raised with a change of the protocol that the other side must know of. Both sides must have the same."""


def mismatch(client: str, client_protocol: int, daemon: str, daemon_protocol: int) -> str:
    """Why a client and a sidecar cannot work together, and the fix; empty when they can.

    Args:
        client: version of the client's package, or empty when it did not say.
        daemon: version of the sidecar's package, or empty when it did not say.
        client_protocol: its protocol version; 0 from one that is older than the numbering.
        daemon_protocol: likewise.
    """
    if client_protocol == daemon_protocol:
        return ""
    older = "sidecar" if daemon_protocol < client_protocol else "cache server's environment"
    newest = daemon if daemon_protocol > client_protocol else client
    return (
        f"the client is kvchaos {client or '(unknown)'} with protocol version {client_protocol}, the sidecar "
        f"is kvchaos {daemon or '(unknown)'} with protocol version {daemon_protocol}; install the same "
        f"version on both sides: upgrade the {older} to kvchaos {newest or __version__}"
    )
