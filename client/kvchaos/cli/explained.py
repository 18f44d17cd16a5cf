"""Errors as a user of the command reads them: what happened and what to try."""

from __future__ import annotations

from kvchaos import __version__
from kvchaos.errors import (
    DeadlineExceeded,
    KVChaosError,
    OperationUnsupported,
    PermissionDenied,
    SidecarUnavailable,
)


def explained(error: KVChaosError, target: str) -> str:
    """The text for an error of a command that talks to ``target``."""
    if isinstance(error, SidecarUnavailable):
        reason = str(error).rpartition(": ")[2].removesuffix(" (2)")
        return (
            f"no daemon answers at {target}: {reason}; start kvchaos-sidecar, "
            "or give its control address with --target or KVCHAOS_TARGET"
        )
    if isinstance(error, DeadlineExceeded):
        return f"the daemon at {target} did not answer in time; try again, or wait longer with --timeout"
    if isinstance(error, PermissionDenied):
        return f"the daemon at {target} refused: {error}; give the file with its token with --token-file"
    if isinstance(error, OperationUnsupported):
        return (
            f"what answers at {target} does not know this call of kvchaos {__version__}; give the control "
            "address of a sidecar of the same version"
        )
    return f"the daemon at {target} refused: {error}" if error.__cause__ else str(error)
