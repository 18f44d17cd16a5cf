"""``--targets``: which sidecars a command is sent to."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvchaos.channel import check_target
from kvchaos.errors import ConfigError

DNS, KUBERNETES = "dns:", "k8s:"
CONTROL_PORT = "control"
"""Name of the port in a pod at which its control API is."""

_NAMESPACE = re.compile(r"[a-z0-9-]+")
"""Without a dot, which the prefix of a label's name has."""
_ADDRESS = re.compile(r"unix:.*|.*:\d+")


@dataclass(frozen=True, slots=True)
class Target:
    """One sidecar of a fleet."""

    name: str
    address: str
    """Its control address; empty when it has none."""
    server_name: str = ""
    """Name that its certificate carries, when that is not the host of the address."""
    problem: str = ""
    """Why it cannot be reached, when that is known beforehand."""


def read_targets(text: str) -> Sequence[Target]:
    """The sidecars that ``text`` names: addresses with commas between them, a file, a DNS name or pods.

    Raises:
        ConfigError: there is none, one is malformed or named twice, or they cannot be found out.
    """
    targets = _reader(text)(text)
    if not targets:
        raise ConfigError([f"--targets: {text}: there is no target in it"])
    for key in ("name", "address"):
        counts = Counter(getattr(target, key) for target in targets)
        twice = [value for value, count in counts.items() if count > 1 and value]
        if twice:
            raise ConfigError([f"--targets: {text}: {key} {twice[0]!r} is there twice"])
    return targets


def _reader(text: str) -> Callable[[str], Sequence[Target]]:
    if text.startswith(DNS):
        return _resolved
    if text.startswith(KUBERNETES):
        return _pods
    if "," in text or _ADDRESS.fullmatch(text):
        return _listed
    return _from_file


def _listed(text: str) -> Sequence[Target]:
    return [_checked(part.strip(), part.strip(), "--targets") for part in text.split(",") if part.strip()]


def _from_file(path: str) -> Sequence[Target]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError([f"--targets: cannot read {path}: {reason}"]) from None
    targets = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if len(words) > 2:
            raise ConfigError([f"--targets: {path}:{number}: write ADDRESS or NAME ADDRESS"])
        if words:
            targets.append(_checked(words[0], words[-1], f"--targets: {path}:{number}"))
    return targets


def _checked(name: str, address: str, place: str) -> Target:
    try:
        check_target(address)
    except ConfigError as error:
        raise ConfigError([f"{place}: {problem}" for problem in error.problems]) from None
    return Target(name, address)


def _resolved(text: str) -> Sequence[Target]:
    check = _checked(text, text.removeprefix(DNS), "--targets").address
    host, _, port = check.rpartition(":")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError([f"--targets: {host} cannot be resolved: {error}"]) from None
    addresses = sorted({str(entry[4][0]) for entry in found})
    shown = [f"[{address}]:{port}" if ":" in address else f"{address}:{port}" for address in addresses]
    return [Target(address, address, server_name=host) for address in shown]


def _pods(text: str) -> Sequence[Target]:
    selector = text.removeprefix(KUBERNETES)
    namespace, slash, rest = selector.partition("/")
    where: Sequence[str] = ()
    if slash and _NAMESPACE.fullmatch(namespace):
        where, selector = ("--namespace", namespace), rest
    if not selector:
        raise ConfigError(["--targets: write k8s:SELECTOR or k8s:NAMESPACE/SELECTOR"])
    listed = _kubectl(["get", "pods", *where, "--selector", selector, "--output", "json"])
    return [_pod(pod) for pod in listed["items"]]


def _kubectl(arguments: Sequence[str]) -> Mapping[str, Any]:
    try:
        done = subprocess.run(["kubectl", *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConfigError([f"--targets: cannot run kubectl: {error.strerror}"]) from None
    if done.returncode:
        raise ConfigError([f"--targets: kubectl: {' '.join(done.stderr.split())}"])
    listed: Mapping[str, Any] = json.loads(done.stdout)
    return listed


def _pod(pod: Mapping[str, Any]) -> Target:
    name = str(pod["metadata"]["name"])
    ports = [
        port["containerPort"]
        for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
        for port in container.get("ports", ())
        if port.get("name") == CONTROL_PORT
    ]
    if not ports:
        return Target(name, "", problem=f"the pod has no port that is called {CONTROL_PORT!r}")
    address = pod["status"].get("podIP")
    if not address:
        return Target(
            name, "", problem=f"the pod is {pod['status'].get('phase', 'unknown')}, without an address"
        )
    host = f"[{address}]" if ":" in address else address
    return Target(name, f"{host}:{ports[0]}")
