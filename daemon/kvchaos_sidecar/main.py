"""The command ``kvchaos-sidecar``.

Exit codes: 0 ended as asked; 1 could not start, or did not end in time; 2 the configuration is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from kvchaos import __version__
from kvchaos.errors import ConfigError
from kvchaos_sidecar.app import Sidecar, make_backend
from kvchaos_sidecar.backends.contract import Backend, BackendError
from kvchaos_sidecar.clock import SystemClock
from kvchaos_sidecar.config.l2_adapter import arguments_from_spec
from kvchaos_sidecar.config.load import Configuration, load, merge
from kvchaos_sidecar.config.rule import Rule
from kvchaos_sidecar.config.schema import Document, json_schema
from kvchaos_sidecar.errors import ListenError
from kvchaos_sidecar.logs import configure_logging
from kvchaos_sidecar.recording.replaying import rules_of_recording

EXIT_FAILED = 1
EXIT_BAD_CONFIGURATION = 2
EXIT_WITHIN_S = 9.0
"""After a signal to end, the process is gone after this even when a thread hangs in the store."""


def run(
    arguments: Sequence[str] | None = None, backend_for: Callable[[Document], Backend] = make_backend
) -> int:
    """Runs the command, with the store that ``backend_for`` makes. Returns its exit code."""
    options = build_parser().parse_args(arguments)
    if options.print_schema:
        print(json.dumps(json_schema(), indent=2))
        return 0
    try:
        configuration = _configuration(options)
        backend = backend_for(configuration.document)
        replayed = rules_of_recording(options.replay) if options.replay else ()
        if options.check:
            print(f"{options.config or '--l2-adapter'}: ok")
            return 0
        configure_logging(options.log_format)
        _raise_descriptor_limit()
        asyncio.run(_serve(configuration, backend, replayed))
    except ConfigError as error:
        return _fail(error, EXIT_BAD_CONFIGURATION)
    except (BackendError, ListenError) as error:
        return _fail(error, EXIT_FAILED)
    return 0


async def _serve(configuration: Configuration, backend: Backend, replayed: Sequence[Rule]) -> None:
    sidecar = Sidecar(configuration, backend, CollectorRegistry(), SystemClock())
    if replayed:
        sidecar.arm(replayed)
    asked_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_end.set)
    loop.add_signal_handler(signal.SIGHUP, sidecar.reload)
    await sidecar.start()
    await asked_to_end.wait()
    _end_for_certain()
    await sidecar.stop()


def _end_for_certain() -> None:
    """A thread that hangs in a system call cannot be stopped, and would hold up the end of the process."""
    timer = threading.Timer(EXIT_WITHIN_S, os._exit, (EXIT_FAILED,))
    timer.daemon = True
    timer.start()


def _raise_descriptor_limit() -> None:
    """A batch of 10,000 keys may need as many descriptors; the soft limit is often 1,024."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _configuration(options: argparse.Namespace) -> Configuration:
    arguments: dict[str, Any] = {}
    if options.l2_adapter is not None:
        arguments = arguments_from_spec(options.l2_adapter)
    elif options.config is None:
        raise ConfigError(["nothing says what to serve; give --config FILE or --l2-adapter JSON"])
    over: dict[str, Any] = {} if options.record is None else {"recording": {"path": str(options.record)}}
    listen = {
        name: value
        for name in ("cache", "control", "http", "handoff")
        if (value := getattr(options, f"listen_{name}")) is not None
    }
    if listen:
        over["listen"] = listen
    return load(options.config, merge(arguments, over) if over else arguments)


def _fail(error: Exception, code: int) -> int:
    print(f"kvchaos-sidecar: {error}", file=sys.stderr)
    return code


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="kvchaos-sidecar",
        description="A proxy between an LLM cache server and its L2 store that makes chosen operations fail. "
        "A test instrument.",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration, as YAML")
    parser.add_argument(
        "--l2-adapter", metavar="JSON", help="an LMCache adapter spec; wins over the file where both speak"
    )
    for name, form in (
        ("cache", "unix:PATH or HOST:PORT"),
        ("control", "unix:PATH or HOST:PORT"),
        ("http", "HOST:PORT"),
        ("handoff", "unix:PATH"),
    ):
        parser.add_argument(f"--listen-{name}", metavar="ADDRESS", help=f"{form}; wins over the file")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="record the run; wins over recording.path of the file"
    )
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="inject the faults of a recording again, at the same calls",
    )
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--check", action="store_true", help="check the configuration and end")
    parser.add_argument(
        "--print-schema", action="store_true", help="print the JSON Schema of the file and end"
    )
    parser.add_argument("--version", action="version", version=f"kvchaos-sidecar {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(run())
