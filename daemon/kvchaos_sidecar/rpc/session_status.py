"""The running daemon, as the control service reports it."""

from __future__ import annotations

from collections.abc import Sequence

from kvchaos.v1 import common_pb2, control_pb2
from kvchaos_sidecar.backends.contract import Backend
from kvchaos_sidecar.health import HealthMonitor
from kvchaos_sidecar.plane import DataPlane
from kvchaos_sidecar.rpc.status import timestamp
from kvchaos_sidecar.sessions.registry import SessionRegistry
from kvchaos_sidecar.sessions.session import Session


class DaemonStatus:
    """Implements :class:`kvchaos_sidecar.rpc.status.StatusSource`. Waits for no traffic."""

    def __init__(
        self,
        started_at: float,
        backend: Backend,
        health: HealthMonitor,
        sessions: SessionRegistry,
        plane: DataPlane,
    ) -> None:
        self._started_at = started_at
        self._backend = backend
        self._health = health
        self._sessions = sessions
        self._plane = plane

    @property
    def started_at(self) -> float:
        """Start of the daemon, in seconds since the epoch."""
        return self._started_at

    @property
    def evaluated_total(self) -> int:
        """Keys judged since start, over all rules."""
        return self._plane.evaluated_total

    @property
    def fired_total(self) -> int:
        """Keys hit since start, over all rules."""
        return self._plane.fired_total

    @property
    def sessions_opened(self) -> int:
        """Sessions opened since start."""
        return self._sessions.opened_total

    def sessions(self) -> Sequence[control_pb2.SessionStatus]:
        """The open sessions, oldest first."""
        return [_session_status(session) for session in self._sessions.all()]

    async def backend_status(self) -> control_pb2.BackendStatus:
        """How the store is now, or that it does not answer."""
        health = await self._health.check()
        return control_pb2.BackendStatus(
            type=self._backend.type_name,
            description=self._backend.description,
            healthy=health.healthy,
            detail=health.detail,
            total_bytes=health.usage.total_bytes,
            capacity_bytes=health.usage.capacity_bytes,
        )


def _session_status(session: Session) -> control_pb2.SessionStatus:
    handoff = session.handoff is not None
    return control_pb2.SessionStatus(
        client_name=session.client_name,
        short_id=session.short_id,
        opened_at=timestamp(session.opened_at),
        transport=common_pb2.TRANSPORT_HANDOFF if handoff else common_pb2.TRANSPORT_INLINE,
        locks=session.locks.total,
        grants=session.grants,
        uid=session.uid,
    )
