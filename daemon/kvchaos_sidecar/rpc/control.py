"""The Control service: reading and changing what is injected. Never waits for the data plane."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator

from grpc import StatusCode

from kvchaos.errors import ConfigError, InvalidKeyError
from kvchaos.v1 import control_pb2
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.config.effective import EffectiveField, effective_fields
from kvchaos_sidecar.config.lint import warnings_of
from kvchaos_sidecar.errors import InvalidRequest, NoConfigFile
from kvchaos_sidecar.journal import Journal
from kvchaos_sidecar.reload import Reloader
from kvchaos_sidecar.rpc.boundary import Context
from kvchaos_sidecar.rpc.control_answers import changed, refuse, time_to_live
from kvchaos_sidecar.rpc.control_messages import (
    call_from_wire,
    event_to_wire,
    explained_to_wire,
    field_to_wire,
)
from kvchaos_sidecar.rpc.control_rules import RulesControl
from kvchaos_sidecar.rpc.convert import faults_to_wire
from kvchaos_sidecar.rpc.status import StatusSource, timestamp, warning
from kvchaos_sidecar.rules.governor import Governor

log = logging.getLogger(__name__)

SETTABLE = ("rate", "seed", "gap_indices", "gap_tail_ratios")


class ControlServicer(RulesControl):
    """Serves Control. Every change is logged with who asked for it."""

    def __init__(
        self,
        governor: Governor,
        reloader: Reloader,
        journal: Journal,
        status: StatusSource,
        clock: Clock,
        version: str,
        backend_timeout_s: float = 2.0,
    ) -> None:
        """A store that does not say within ``backend_timeout_s`` how it is, is reported unhealthy."""
        super().__init__(governor, clock)
        self._reloader = reloader
        self._journal = journal
        self._status_source = status
        self._version = version
        self._backend_timeout_s = backend_timeout_s

    async def GetStatus(
        self, request: control_pb2.GetStatusRequest, context: Context
    ) -> control_pb2.GetStatusResponse:
        """The daemon as an operator sees it."""
        snapshot = self._governor.snapshot()
        path = self._reloader.configuration.path
        return control_pb2.GetStatusResponse(
            daemon_version=self._version,
            started_at=timestamp(self._status_source.started_at),
            warning=warning(snapshot),
            fault_inject=faults_to_wire(snapshot),
            halt_reason=snapshot.halt_reason,
            environment=snapshot.environment,
            production_allowed=snapshot.production_allowed,
            backend=await self._backend_status(),
            sessions=self._status_source.sessions(),
            config_path=str(path or ""),
            reload_error=self._reloader.error,
            evaluated_total=self._status_source.evaluated_total,
            fired_total=self._status_source.fired_total,
            sessions_opened=self._status_source.sessions_opened,
        )

    async def GetConfig(
        self, request: control_pb2.GetConfigRequest, context: Context
    ) -> control_pb2.GetConfigResponse:
        """Every field with its source."""
        fields = effective_fields(self._reloader.configuration, self._governor.runtime_values())
        return control_pb2.GetConfigResponse(
            fields=[self._config_field(field) for field in fields],
            generation=self._governor.snapshot().generation,
            warnings=warnings_of(self._reloader.configuration.document.rules),
        )

    async def SetFaults(
        self, request: control_pb2.SetFaultsRequest, context: Context
    ) -> control_pb2.ChangeResponse:
        """Lays values over the file's."""
        if not any(request.HasField(name) for name in SETTABLE):
            await refuse(context, f"nothing to set; give at least one of {', '.join(SETTABLE)}")
        return await self._change(context, f"set {_one_line(request)}", lambda: self._set(request))

    async def Reset(self, request: control_pb2.ResetRequest, context: Context) -> control_pb2.ChangeResponse:
        """Drops the runtime values."""
        return await self._change(context, "reset", self._governor.reset)

    async def Reload(
        self, request: control_pb2.ReloadRequest, context: Context
    ) -> control_pb2.ChangeResponse:
        """Reads the file again."""
        try:
            outcome = await self._reloader.reload()
        except NoConfigFile as error:
            await context.abort(StatusCode.FAILED_PRECONDITION, str(error))
        except ConfigError as error:
            await refuse(context, str(error))
        return changed(self._governor, context, "reload", outcome)

    async def Halt(self, request: control_pb2.HaltRequest, context: Context) -> control_pb2.ChangeResponse:
        """Stops all injection."""
        return await self._change(
            context, f"halt {request.reason!r}", lambda: self._governor.halt(request.reason)
        )

    async def Resume(
        self, request: control_pb2.ResumeRequest, context: Context
    ) -> control_pb2.ChangeResponse:
        """Ends a halt."""
        return await self._change(context, "resume", self._governor.resume)

    async def Undo(self, request: control_pb2.UndoRequest, context: Context) -> control_pb2.ChangeResponse:
        """Takes back the last change."""
        before = self._past.before(request.change, self._governor.state())
        if before is None:
            await context.abort(
                StatusCode.FAILED_PRECONDITION,
                f"change {request.change} is not the last one here; see 'kvchaos get' and 'kvchaos rules'",
            )
        return await self._change(
            context, f"undo change {request.change}", lambda: self._governor.restore(before)
        )

    async def Explain(
        self, request: control_pb2.ExplainRequest, context: Context
    ) -> control_pb2.ExplainResponse:
        """What the rules would do to a call with these keys."""
        try:
            call = call_from_wire(request)
        except InvalidKeyError as error:
            await refuse(context, f"keys: {error}")
        except InvalidRequest as error:
            await refuse(context, str(error))
        generation, hits = self._governor.explain(call)
        return control_pb2.ExplainResponse(
            generation=generation,
            positions=explained_to_wire(hits),
            halted=self._governor.snapshot().halted,
        )

    async def ListDrops(
        self, request: control_pb2.ListDropsRequest, context: Context
    ) -> control_pb2.ListDropsResponse:
        """The newest events."""
        events = self._journal.recent(request.limit)
        return control_pb2.ListDropsResponse(
            events=[event_to_wire(event) for event in events], forgotten=self._journal.forgotten
        )

    async def WatchDrops(
        self, request: control_pb2.WatchDropsRequest, context: Context
    ) -> AsyncIterator[control_pb2.WatchDropsResponse]:
        """Events from the moment on at which the client has the initial metadata."""
        with self._journal.watch() as events:
            await context.send_initial_metadata(())
            async for watched in events:
                yield control_pb2.WatchDropsResponse(
                    event=event_to_wire(watched.event), missed=watched.missed
                )

    def _set(self, request: control_pb2.SetFaultsRequest) -> bool:
        return self._governor.set_faults(
            rate=request.rate if request.HasField("rate") else None,
            seed=request.seed if request.HasField("seed") else None,
            gap_indices=request.gap_indices.values if request.HasField("gap_indices") else None,
            gap_tail_ratios=request.gap_tail_ratios.values if request.HasField("gap_tail_ratios") else None,
            time_to_live=time_to_live(request.HasField("time_to_live"), request.time_to_live),
        )

    async def _backend_status(self) -> control_pb2.BackendStatus:
        try:
            async with asyncio.timeout(self._backend_timeout_s):
                return await self._status_source.backend_status()
        except TimeoutError:
            return control_pb2.BackendStatus(
                type=self._reloader.configuration.document.backend.type,
                detail=f"did not answer within {self._backend_timeout_s:g} s",
            )

    def _config_field(self, field: EffectiveField) -> control_pb2.ConfigField:
        message = field_to_wire(field)
        if not math.isinf(field.ends_at):
            remaining = field.ends_at - self._clock.monotonic()
            message.expires_at.CopyFrom(timestamp(self._clock.time() + remaining))
        return message


def _one_line(request: control_pb2.SetFaultsRequest) -> str:
    return " ".join(str(request).split())
