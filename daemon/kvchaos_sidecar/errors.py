"""Every refusal that the daemon makes on purpose. Each has one gRPC status, in rpc/boundary.py.

DaemonError
├── InvalidRequest       a field of the request is wrong
├── UnknownSession       the session ended, or the daemon was restarted
├── UnknownTicket        the request was never granted, has ended or has expired
├── TicketInUse          the request id is taken, or its bytes are still moving
├── TooManySessions      limits.max_sessions is reached
├── TooManyGrants        limits.session_grants is reached
├── VersionMismatch      the client speaks another version of the protocol
├── HandoffUnavailable   the session has no handoff connection
├── NoConfigFile         there is no configuration file to reload
├── Draining             the daemon is about to end
├── InjectedFailure      a fault rule fails the whole call
└── ListenError          a listener cannot be opened; the daemon does not start
"""

from __future__ import annotations

from kvchaos.errors import KVChaosError


class DaemonError(KVChaosError):
    """Base of the daemon's own refusals."""


class InvalidRequest(DaemonError, ValueError):
    """A field of the request is wrong."""


class UnknownSession(DaemonError):
    """The session ended, or the daemon was restarted."""


class UnknownTicket(DaemonError):
    """The request was never granted, has ended or has expired."""


class TicketInUse(DaemonError):
    """The request id is taken, or its bytes are still moving."""


class TooManySessions(DaemonError):
    """``limits.max_sessions`` is reached."""


class TooManyGrants(DaemonError):
    """``limits.session_grants`` is reached."""


class VersionMismatch(DaemonError):
    """The client speaks another version of the protocol."""


class HandoffUnavailable(DaemonError):
    """The session has no handoff connection."""


class NoConfigFile(DaemonError):
    """There is no configuration file to reload."""


class Draining(DaemonError):
    """The daemon is about to end."""


class InjectedFailure(DaemonError):
    """A fault rule fails the whole call."""


class ListenError(DaemonError):
    """A listener cannot be opened; the daemon does not start."""
