"""How the control service answers and refuses."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import NoReturn

from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode

from kvchaos.errors import ConfigError
from kvchaos.v1 import control_pb2
from kvchaos_sidecar.rpc.boundary import Context
from kvchaos_sidecar.rpc.convert import faults_to_wire
from kvchaos_sidecar.rpc.status import warning
from kvchaos_sidecar.rules.governor import Governor

log = logging.getLogger(__name__)


def changed(governor: Governor, context: Context, what: str, changed: bool) -> control_pb2.ChangeResponse:
    """The faults in force after a change, which is logged with who asked for it."""
    snapshot = governor.snapshot()
    outcome = f"generation {snapshot.generation}" if changed else "nothing changed"
    log.warning("control: %s (from %s): %s; %s", what, context.peer(), outcome, warning(snapshot))
    return control_pb2.ChangeResponse(fault_inject=faults_to_wire(snapshot), changed=changed)


async def refuse(context: Context, message: str) -> NoReturn:
    """Fails a call with INVALID_ARGUMENT."""
    await context.abort(StatusCode.INVALID_ARGUMENT, message)
    raise RuntimeError("abort raises")


def time_to_live(present: bool, duration: Duration) -> timedelta | None:
    """How long a change lasts; None for no end. Raises ConfigError when it is out of range."""
    if not present:
        return None
    try:
        return duration.ToTimedelta()
    except (ValueError, OverflowError) as error:
        raise ConfigError([f"time_to_live: {error}"]) from None
