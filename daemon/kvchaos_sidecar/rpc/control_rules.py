"""The part of the Control service that is about rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from math import isinf

from kvchaos.errors import ConfigError
from kvchaos.v1 import control_pb2, control_pb2_grpc
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.config.lint import warnings_of
from kvchaos_sidecar.config.rule import RecordedCall
from kvchaos_sidecar.config.rule_file import parse_rules
from kvchaos_sidecar.rpc.boundary import Context
from kvchaos_sidecar.rpc.control_answers import changed, refuse, time_to_live
from kvchaos_sidecar.rpc.status import timestamp
from kvchaos_sidecar.rules.governor import Governor
from kvchaos_sidecar.rules.past import Past
from kvchaos_sidecar.rules.rulebook import Listed

SHOWN_AWAITED = 20
"""Calls that a replay awaits, in the answer to ListRules."""


class RulesControl(control_pb2_grpc.ControlServicer):
    """Lists and changes rules, and remembers the last change."""

    def __init__(self, governor: Governor, clock: Clock) -> None:
        self._governor = governor
        self._clock = clock
        self._past = Past()

    async def ListRules(
        self, request: control_pb2.ListRulesRequest, context: Context
    ) -> control_pb2.ListRulesResponse:
        """Every rule, disabled ones too."""
        return control_pb2.ListRulesResponse(
            rules=[self._status(listed) for listed in self._governor.rules()],
            halted=self._governor.snapshot().halted,
        )

    async def AddRules(
        self, request: control_pb2.AddRulesRequest, context: Context
    ) -> control_pb2.ChangeResponse:
        """Adds rules, all or none."""
        try:
            rules = (await asyncio.to_thread(parse_rules, request.yaml)).rules  # a replay's may be long
        except ConfigError as error:
            await refuse(context, str(error))
        names = ", ".join(rule.name for rule in rules)
        response = await self._change(
            context,
            f"add rules {names}",
            lambda: self._governor.add_rules(rules, _lasts(request)),
        )
        response.warnings.extend(warnings_of(rules))
        return response

    async def RemoveRule(
        self, request: control_pb2.RemoveRuleRequest, context: Context
    ) -> control_pb2.ChangeResponse:
        """Removes a rule that was added."""
        return await self._change(
            context, f"remove rule {request.name}", lambda: self._governor.remove_rule(request.name)
        )

    async def SwitchRule(
        self, request: control_pb2.SwitchRuleRequest, context: Context
    ) -> control_pb2.ChangeResponse:
        """Enables or disables a rule."""
        verb = "enable" if request.enabled else "disable"
        return await self._change(
            context,
            f"{verb} rule {request.name}",
            lambda: self._governor.switch_rule(request.name, request.enabled, _lasts(request)),
        )

    async def _change(
        self, context: Context, what: str, make: Callable[[], bool]
    ) -> control_pb2.ChangeResponse:
        """Makes a change that can be taken back. ``make`` says whether it changed anything."""
        before = self._governor.state()
        try:
            outcome = make()
        except ConfigError as error:
            await refuse(context, str(error))
        response = changed(self._governor, context, what, outcome)
        if outcome:
            response.change = self._past.note(before, self._governor.state())
        return response

    def _status(self, listed: Listed) -> control_pb2.RuleStatus:
        settings = listed.rule.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        status = control_pb2.RuleStatus(
            name=listed.rule.name,
            source=listed.source,
            state=listed.state,
            operations=listed.rule.match.op,
            fault=listed.rule.fault.chosen.kind,
            definition_json=json.dumps(settings, ensure_ascii=False),
            evaluated=listed.armed.evaluated_total if listed.armed else 0,
            fired=listed.armed.fired_total if listed.armed else 0,
        )
        if listed.armed is not None:
            status.awaited = len(listed.armed.awaited)
            status.awaited_calls.extend(map(_described, listed.armed.awaited[:SHOWN_AWAITED]))
        if not isinf(listed.ends_at):
            remaining = listed.ends_at - self._clock.monotonic()
            status.expires_at.CopyFrom(timestamp(self._clock.time() + remaining))
        return status


def _lasts(request: control_pb2.AddRulesRequest | control_pb2.SwitchRuleRequest) -> timedelta | None:
    return time_to_live(request.HasField("time_to_live"), request.time_to_live)


def _described(call: RecordedCall) -> str:
    return (
        f"session {call.session}, {call.op} number {call.nth} of the keys {call.batch}: "
        f"{len(call.places)} not hit"
    )
