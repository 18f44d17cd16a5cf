"""How the command finds its daemon."""

from __future__ import annotations

import os
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path

from kvchaos.channel import TlsSettings
from kvchaos.cli.values import positive_seconds
from kvchaos.control import DEFAULT_TARGET, ControlClient
from kvchaos.errors import ConfigError

TARGET_VARIABLE = "KVCHAOS_TARGET"


def add_connection_arguments(parser: ArgumentParser) -> None:
    """Adds what every subcommand that talks to a daemon takes."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--target",
        default=SUPPRESS,
        metavar="ADDRESS",
        help=f"control address, unix:/PATH or HOST:PORT (default: ${TARGET_VARIABLE}, else {DEFAULT_TARGET})",
    )
    group.add_argument(
        "--targets",
        default=SUPPRESS,
        metavar="FILE|LIST",
        help="many sidecars at once: a file with [NAME] ADDRESS lines, addresses with commas between them, "
        "dns:HOST:PORT or k8s:[NAMESPACE/]SELECTOR",
    )
    group.add_argument(
        "--all-or-nothing",
        action="store_true",
        default=SUPPRESS,
        help="with --targets: change nothing unless all answer; take back what was changed when one fails",
    )
    group.add_argument(
        "--token-file", default=SUPPRESS, metavar="FILE", help="file with the listener's token"
    )
    group.add_argument(
        "--ca", default=SUPPRESS, metavar="FILE", help="use TLS and trust the authorities in FILE"
    )
    group.add_argument(
        "--server-name",
        default=SUPPRESS,
        metavar="NAME",
        help="with --ca: the name that the certificate carries, when that is not the host of the address",
    )
    group.add_argument(
        "--timeout",
        type=positive_seconds,
        default=SUPPRESS,
        metavar="DURATION",
        help="give up after this long (default: 10s)",
    )


def target_of(arguments: Namespace) -> str:
    """The address that the arguments and the environment name."""
    return getattr(arguments, "target", "") or os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET


def connect(arguments: Namespace) -> ControlClient:
    """A client for the daemon that the arguments name. Raises ConfigError when they are wrong."""
    ca_file = getattr(arguments, "ca", "")
    token_file = getattr(arguments, "token_file", "")
    return ControlClient(
        target_of(arguments),
        token=_read_token(Path(token_file)) if token_file else "",
        tls=TlsSettings(ca_file, getattr(arguments, "server_name", "")) if ca_file else None,
        timeout_s=getattr(arguments, "timeout", 10.0),
    )


def _read_token(path: Path) -> str:
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not ASCII text"
        raise ConfigError([f"--token-file: cannot read {path}: {reason}"]) from None
    if len(token.split()) != 1:
        raise ConfigError([f"--token-file: {path} must hold one word, the token"])
    return token
