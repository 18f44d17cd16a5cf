"""The daemon's values as messages of the Control service."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from kvchaos.keys import decode_keys
from kvchaos.v1 import control_pb2
from kvchaos_sidecar.config.effective import EffectiveField
from kvchaos_sidecar.config.problems import suggestion
from kvchaos_sidecar.errors import InvalidRequest
from kvchaos_sidecar.journal import DropEvent
from kvchaos_sidecar.rpc.convert import sizes_from_wire
from kvchaos_sidecar.rpc.status import timestamp
from kvchaos_sidecar.rules.call import Call, Operation
from kvchaos_sidecar.rules.verdict import Hit


def call_from_wire(request: control_pb2.ExplainRequest) -> Call:
    """The call that is to be explained.

    Raises:
        InvalidKeyError: a key is wrong.
        InvalidRequest: the operation is not known, or a size is wrong.
    """
    keys = decode_keys(request.keys)
    name = request.operation or Operation.LOAD
    if name not in set(Operation):
        raise InvalidRequest(f"operation: {name!r} is not known; {suggestion(name, list(Operation))}")
    sizes = sizes_from_wire(request.size_bytes, len(keys)) if request.size_bytes else ()
    return Call(Operation(name), keys, sizes, request.client_name)


def explained_to_wire(hits: Sequence[Hit]) -> list[control_pb2.ExplainedPosition]:
    """Hits gathered by position, ascending; the hits of one position keep their order."""
    ordered = sorted(hits, key=lambda hit: hit.position)
    return [
        control_pb2.ExplainedPosition(position=position, hits=[_hit_to_wire(hit) for hit in group])
        for position, group in groupby(ordered, key=lambda hit: hit.position)
    ]


def field_to_wire(field: EffectiveField) -> control_pb2.ConfigField:
    """A field without the end of its time to live."""
    value_json = json.dumps(field.value, ensure_ascii=False)
    return control_pb2.ConfigField(path=field.path, value_json=value_json, source=field.source)


def event_to_wire(event: DropEvent) -> control_pb2.DropEvent:
    """An injected fault."""
    return control_pb2.DropEvent(
        sequence=event.sequence,
        time=timestamp(event.time),
        session=event.session,
        client_name=event.client_name,
        rule=event.rule,
        reason=event.reason,
        fault=event.fault,
        operation=event.operation,
        batch_size=event.batch_size,
        positions=event.positions,
        sample_keys=event.sample_keys,
        generation=event.generation,
    )


def _hit_to_wire(hit: Hit) -> control_pb2.ExplainedHit:
    return control_pb2.ExplainedHit(rule=hit.rule, reason=hit.reason, fault=hit.fault.kind, detail=hit.detail)
