"""A synchronous client of a daemon's control service."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.message import Message

from kvchaos.channel import TlsSettings, bearer, open_channel, translate
from kvchaos.keys import ObjectKey, encode_keys
from kvchaos.v1 import control_pb2, control_pb2_grpc

DEFAULT_TARGET = "unix:/run/kvchaos/control.sock"


class ControlClient:
    """Reads and changes what a daemon injects. Use it in ``with``, or close it.

    Every method raises an error of the SidecarError tree when the call fails; RequestRefused names the
    field and the fix, and then nothing has changed.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        token: str = "",
        tls: TlsSettings | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        """Connects when first used.

        Args:
            target: ``unix:/PATH`` or ``HOST:PORT`` of the control listener.
            token: what the listener asks for; empty for none.
            tls: None for plain text.
            timeout_s: bound of every call but :meth:`watch_drops`.

        Raises:
            ConfigError: the target is malformed.
        """
        self._channel = open_channel(target, tls)
        self._stub: Any = control_pb2_grpc.ControlStub(self._channel)
        self._metadata = bearer(token)
        self._timeout_s = timeout_s

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. Idempotent."""
        self._channel.close()

    def get_status(self) -> control_pb2.GetStatusResponse:
        """The daemon as an operator sees it."""
        response: control_pb2.GetStatusResponse = self._call(
            self._stub.GetStatus, control_pb2.GetStatusRequest()
        )
        return response

    def get_config(self) -> control_pb2.GetConfigResponse:
        """The effective configuration, with the source of every field."""
        response: control_pb2.GetConfigResponse = self._call(
            self._stub.GetConfig, control_pb2.GetConfigRequest()
        )
        return response

    def set_faults(
        self,
        *,
        rate: float | None = None,
        seed: int | None = None,
        gap_indices: Sequence[int] | None = None,
        gap_tail_ratios: Sequence[float] | None = None,
        time_to_live: timedelta | None = None,
    ) -> control_pb2.ChangeResponse:
        """Lays values over the file's, until reset, restart or the end of ``time_to_live``.

        None leaves a field alone. ValueError when a number does not fit the message (64 bits).
        """
        request = control_pb2.SetFaultsRequest(rate=rate, seed=seed)
        if gap_indices is not None:
            request.gap_indices.CopyFrom(control_pb2.Positions(values=gap_indices))
        if gap_tail_ratios is not None:
            request.gap_tail_ratios.CopyFrom(control_pb2.Ratios(values=gap_tail_ratios))
        _set_time_to_live(request, time_to_live)
        return self._change(self._stub.SetFaults, request)

    def reset(self) -> control_pb2.ChangeResponse:
        """Drops every runtime change. Does not resume a halt."""
        return self._change(self._stub.Reset, control_pb2.ResetRequest())

    def reload(self) -> control_pb2.ChangeResponse:
        """Reads the configuration file again."""
        return self._change(self._stub.Reload, control_pb2.ReloadRequest())

    def halt(self, reason: str = "") -> control_pb2.ChangeResponse:
        """Stops all injection at once, until :meth:`resume`."""
        return self._change(self._stub.Halt, control_pb2.HaltRequest(reason=reason))

    def resume(self) -> control_pb2.ChangeResponse:
        """Ends a halt."""
        return self._change(self._stub.Resume, control_pb2.ResumeRequest())

    def undo(self, change: int) -> control_pb2.ChangeResponse:
        """Takes back a change, by its number, if nothing was changed since; RequestRefused otherwise."""
        return self._change(self._stub.Undo, control_pb2.UndoRequest(change=change))

    def list_rules(self) -> control_pb2.ListRulesResponse:
        """Every rule but fault_inject, in the order in which they apply, disabled ones too."""
        response: control_pb2.ListRulesResponse = self._call(
            self._stub.ListRules, control_pb2.ListRulesRequest()
        )
        return response

    def add_rules(self, yaml: str, time_to_live: timedelta | None = None) -> control_pb2.ChangeResponse:
        """Adds the rules of a YAML text behind those in force, all or none."""
        request = control_pb2.AddRulesRequest(yaml=yaml)
        _set_time_to_live(request, time_to_live)
        return self._change(self._stub.AddRules, request)

    def remove_rule(self, name: str) -> control_pb2.ChangeResponse:
        """Removes a rule that was added at runtime."""
        return self._change(self._stub.RemoveRule, control_pb2.RemoveRuleRequest(name=name))

    def switch_rule(
        self, name: str, enabled: bool, time_to_live: timedelta | None = None
    ) -> control_pb2.ChangeResponse:
        """Enables or disables a rule, from the file or not."""
        request = control_pb2.SwitchRuleRequest(name=name, enabled=enabled)
        _set_time_to_live(request, time_to_live)
        return self._change(self._stub.SwitchRule, request)

    def explain(
        self, keys: Sequence[ObjectKey], operation: str = "", size_bytes: int = 0, client_name: str = ""
    ) -> control_pb2.ExplainResponse:
        """Which positions of a call with these keys (a load, if not said) the rules would hit, and why."""
        response: control_pb2.ExplainResponse = self._call(
            self._stub.Explain, explain_request(keys, operation, size_bytes, client_name)
        )
        return response

    def list_drops(self, limit: int = 0) -> control_pb2.ListDropsResponse:
        """The newest injected faults, oldest first; 0 for all that are kept."""
        response: control_pb2.ListDropsResponse = self._call(
            self._stub.ListDrops, control_pb2.ListDropsRequest(limit=limit)
        )
        return response

    def watch_drops(self) -> Generator[control_pb2.WatchDropsResponse]:
        """Injected faults as they happen, from the moment on at which this returns.

        Closing the iterator ends the watch.
        """
        stream = self._stub.WatchDrops(control_pb2.WatchDropsRequest(), metadata=self._metadata)
        stream.initial_metadata()
        if stream.done():
            raise translate(stream.exception())
        return _events(stream)

    def _change(self, method: Any, request: Message) -> control_pb2.ChangeResponse:
        response: control_pb2.ChangeResponse = self._call(method, request)
        return response

    def _call(self, method: Any, request: Message) -> Any:
        try:
            return method(request, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise translate(error) from error


def explain_request(
    keys: Sequence[ObjectKey], operation: str = "", size_bytes: int = 0, client_name: str = ""
) -> control_pb2.ExplainRequest:
    """What to explain. ``size_bytes`` is that of every object; 0 when it is not known."""
    return control_pb2.ExplainRequest(
        keys=encode_keys(keys),
        operation=operation,
        size_bytes=[size_bytes] if size_bytes else (),
        client_name=client_name,
    )


def _set_time_to_live(request: Any, time_to_live: timedelta | None) -> None:
    if time_to_live is not None:
        request.time_to_live.FromTimedelta(time_to_live)


def _events(stream: Any) -> Generator[control_pb2.WatchDropsResponse]:
    try:
        yield from stream
    except grpc.RpcError as error:
        raise translate(error) from error
    finally:
        stream.cancel()
