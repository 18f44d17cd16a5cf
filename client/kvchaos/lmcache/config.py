"""The plugin's settings: LMCache's ``adapter_params``, checked whole before anything is opened."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from lmcache.v1.distributed.l2_adapters.config import L2AdapterConfigBase

from kvchaos.channel import TlsSettings, check_target
from kvchaos.errors import ConfigError

MAX_TIMEOUT_S = 600.0
MAX_CAPACITY_GB = 1024.0 * 1024.0
MAX_WORKERS = 64
GIB = 1024**3

_HELP = """\
kvchaos L2 adapter (a fault-injecting sidecar for tests), adapter_params:
- target (str, required): the sidecar's cache listener, "unix:/PATH" or "HOST:PORT"
- timeout_s (float, default 10): how long any operation may take, in (0, 600]
- max_capacity_gb (float, default 0): capacity in GiB for LMCache's own eviction; 0 takes what the
  sidecar announces, and none when it announces none
- handoff (bool, default true): pass file descriptors where the sidecar offers it
- workers (int, default 4): threads that move bytes, 1 to 64
- token_file (str): file with the bearer token of a listener that asks for one
- tls (bool, default false): the listener speaks TLS
- ca_file (str): PEM file with the authorities to trust instead of the system's; needs tls
- server_name (str): name that the certificate must carry, when it is not the target's host; needs tls"""


@dataclass(frozen=True, kw_only=True)
class KVChaosL2AdapterConfig(L2AdapterConfigBase):  # type: ignore[misc]  # lmcache carries no types
    """Settings of the plugin."""

    target: str
    """``unix:/PATH`` or ``HOST:PORT`` of the sidecar's cache listener."""
    timeout_s: float = 10.0
    """How long any operation may take."""
    max_capacity_gb: float = 0.0
    """Capacity in GiB for LMCache's eviction; 0 takes what the sidecar announces."""
    handoff: bool = True
    """Pass file descriptors where the sidecar offers it."""
    workers: int = 4
    """Threads that move bytes."""
    token_file: str = ""
    """File with the bearer token; empty for none."""
    tls: bool = False
    """The listener speaks TLS."""
    ca_file: str = ""
    """PEM file with the authorities to trust; empty for the system's."""
    server_name: str = ""
    """Name that the certificate must carry; empty for the target's host."""

    @classmethod
    def from_dict(cls, d: Mapping[str, object]) -> KVChaosL2AdapterConfig:
        """The settings in ``adapter_params``.

        Raises:
            ConfigError: a ValueError whose message names every wrong field.
        """
        names = [setting.name for setting in fields(cls)]
        problems = [
            f"adapter_params.{name}: unknown; the fields are {', '.join(names)}"
            for name in d
            if name not in names
        ]
        if "target" not in d:
            problems.append("adapter_params.target: missing; for example unix:/run/kvchaos/cache.sock")
        for name, value in d.items():
            problem = _CHECKS[name](value) if name in _CHECKS else ""
            if problem:
                problems.append(f"adapter_params.{name}: {problem}")
        if not d.get("tls") and (d.get("ca_file") or d.get("server_name")):
            problems.append("adapter_params.tls: must be true for ca_file and server_name to have a meaning")
        if problems:
            raise ConfigError(problems)
        return cls(**d)  # type: ignore[arg-type]

    @classmethod
    def help(cls) -> str:
        """What LMCache prints about the settings."""
        return _HELP

    @property
    def max_capacity_bytes(self) -> int:
        """``max_capacity_gb`` in bytes."""
        return int(self.max_capacity_gb * GIB)

    @property
    def tls_settings(self) -> TlsSettings | None:
        """For the client; None for plain text."""
        return TlsSettings(self.ca_file, self.server_name) if self.tls else None

    def read_token(self) -> str:
        """The token in ``token_file``; empty without one. Raises ConfigError when it cannot be read."""
        if not self.token_file:
            return ""
        try:
            token = Path(self.token_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                [f"adapter_params.token_file: cannot read {self.token_file!r}: {error}"]
            ) from error
        if not token:
            raise ConfigError([f"adapter_params.token_file: {self.token_file!r} is empty"])
        return token


def _target(value: object) -> str:
    if not isinstance(value, str):
        return f"expected a string, got {value!r}"
    try:
        check_target(value)
    except ConfigError as error:
        return error.problems[0]
    return ""


def _number(low: float, high: float, low_is_allowed: bool) -> Callable[[object], str]:
    bounds = f"{'[' if low_is_allowed else '('}{low:g}, {high:g}]"

    def check(value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected a number, got {value!r}"
        fits = math.isfinite(value) and low <= value <= high and (low_is_allowed or value > low)
        return "" if fits else f"{value!r} is not in {bounds}"

    return check


def _workers(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"expected an integer, got {value!r}"
    return "" if 1 <= value <= MAX_WORKERS else f"{value} is not in [1, {MAX_WORKERS}]"


def _switch(value: object) -> str:
    return "" if isinstance(value, bool) else f"expected true or false, got {value!r}"


def _text(value: object) -> str:
    return "" if isinstance(value, str) else f"expected a string, got {value!r}"


_CHECKS: Mapping[str, Callable[[object], str]] = {
    "target": _target,
    "timeout_s": _number(0.0, MAX_TIMEOUT_S, low_is_allowed=False),
    "max_capacity_gb": _number(0.0, MAX_CAPACITY_GB, low_is_allowed=True),
    "handoff": _switch,
    "workers": _workers,
    "token_file": _text,
    "tls": _switch,
    "ca_file": _text,
    "server_name": _text,
}
