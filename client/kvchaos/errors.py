"""Every error that kvchaos raises on purpose.

KVChaosError
├── InvalidKeyError          a key or a batch breaks an invariant
├── ConfigError              a configuration is wrong; `problems` names every place
├── SidecarError             a call to a daemon failed
│   ├── SidecarUnavailable   it cannot be reached, or is draining
│   ├── DeadlineExceeded     it did not answer in time
│   ├── SessionEnded         it does not know the session (any more)
│   ├── RequestRefused       it refused the request as wrong
│   ├── OperationUnsupported its backend cannot do this
│   ├── PermissionDenied     it asks for a token or another user
│   └── VersionMismatch      it speaks another version of the protocol
├── HandoffRefused           descriptor passing was refused; inline transport remains
└── ReplayFailed             a command under recorded faults did not do what was expected
"""

from __future__ import annotations

from collections.abc import Sequence


class KVChaosError(Exception):
    """Base of every error that kvchaos raises on purpose."""


class InvalidKeyError(KVChaosError, ValueError):
    """A key or a batch of keys breaks an invariant."""


class ConfigError(KVChaosError, ValueError):
    """A configuration is wrong. Nothing has been changed.

    Attributes:
        problems: one line for each problem, each naming its place (``rules[2].select.rate: ...``).
    """

    def __init__(self, problems: Sequence[str], source: str = "") -> None:
        self.problems = tuple(problems)
        self.source = source
        lines = (
            self.problems if len(self.problems) == 1 else (f"{len(self.problems)} problems:", *self.problems)
        )
        super().__init__((f"{source}: " if source else "") + "\n  ".join(lines))


class SidecarError(KVChaosError):
    """A call to a daemon failed."""


class SidecarUnavailable(SidecarError):
    """The daemon cannot be reached, or is draining."""


class DeadlineExceeded(SidecarError):
    """The daemon did not answer in time."""


class SessionEnded(SidecarError):
    """The daemon does not know the session (any more)."""


class RequestRefused(SidecarError):
    """The daemon refused the request as wrong."""


class OperationUnsupported(SidecarError):
    """The daemon, or the backend behind it, cannot do this."""


class PermissionDenied(SidecarError):
    """The daemon asks for a token or for another user."""


class VersionMismatch(SidecarError):
    """The daemon speaks another version of the protocol; the message names both and the fix."""


class HandoffRefused(KVChaosError):
    """Descriptor passing was refused; inline transport remains."""


class ReplayFailed(KVChaosError):
    """A command under recorded faults did not do what was expected."""
