"""Errors as a user of the command reads them: what happened and what to try."""

from __future__ import annotations

from kvchaos.errors import (
    ConfigError,
    DeadlineExceeded,
    KVChaosError,
    PermissionDenied,
    SidecarUnavailable,
)


def explained(error: KVChaosError, target: str) -> str:
    """The text for an error of a command that talks to ``target``."""
    if isinstance(error, ConfigError):
        return _listed(error)
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
    return f"the daemon at {target} refused: {error}" if error.__cause__ else str(error)


def _listed(error: ConfigError) -> str:
    if len(error.problems) == 1:
        return str(error)
    head = f"{error.source}: {len(error.problems)} problems" if error.source else "problems"
    return "\n  ".join([f"{head}:", *error.problems])
