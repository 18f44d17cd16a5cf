"""``kvchaos explain``: which positions of a call the rules would hit, and why."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from kvchaos.cli import offline
from kvchaos.cli.connection import connect
from kvchaos.cli.keys_file import read_keys, synthetic_keys
from kvchaos.cli.output import Colour, Output
from kvchaos.cli.plain import plain
from kvchaos.cli.values import count
from kvchaos.control import explain_request
from kvchaos.errors import ConfigError
from kvchaos.keys import MAX_BATCH_KEYS, ObjectKey
from kvchaos.v1 import control_pb2

NAME = "explain"
HELP = "Tell which positions of a call the rules would hit, and why. Injects nothing."
OPERATIONS = ("store", "lookup", "load", "unlock", "delete", "list", "usage", "connect")


def configure(parser: ArgumentParser) -> None:
    """Adds where the keys and the rules come from."""
    keys = parser.add_mutually_exclusive_group(required=True)
    keys.add_argument(
        "keys", nargs="?", metavar="KEYS.json", help="keys of the load, a JSON list; - for stdin"
    )
    keys.add_argument("--num-chunks", type=count, metavar="N", help="make up the keys of a load of N chunks")
    parser.add_argument(
        "--op", choices=OPERATIONS, default="load", help="the call that is explained (default: load)"
    )
    parser.add_argument(
        "--size", type=count, default=0, metavar="BYTES", help="bytes of each object, for rules that ask"
    )
    parser.add_argument(
        "--client", default="", metavar="NAME", help="the client that makes the call, for rules that ask"
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="take the rules of FILE and ask no daemon"
    )


def run(arguments: Namespace, output: Output) -> None:
    """Asks the daemon, or the sidecar's package, and shows the answer."""
    keys = _keys(arguments)
    if arguments.config is not None:
        request = explain_request(keys, arguments.op, arguments.size, arguments.client)
        response = offline.explain(arguments.config, request)
    else:
        with connect(arguments) as client:
            response = client.explain(keys, arguments.op, arguments.size, arguments.client)
    if output.as_json:
        output.json({**plain(response), "batch_size": len(keys)})
        return
    _show(response, keys, output)


def _keys(arguments: Namespace) -> Sequence[ObjectKey]:
    if arguments.num_chunks is None:
        return read_keys(arguments.keys)
    if arguments.num_chunks > MAX_BATCH_KEYS:
        raise ConfigError(
            [f"--num-chunks {arguments.num_chunks} is over the limit of {MAX_BATCH_KEYS} of one batch"]
        )
    return synthetic_keys(arguments.num_chunks)


def _show(response: control_pb2.ExplainResponse, keys: Sequence[ObjectKey], output: Output) -> None:
    hit = len(response.positions)
    output.line(f"{hit} of {len(keys)} positions are hit, by generation {response.generation} of the rules")
    if response.halted:
        output.line(output.coloured("injection is halted: none of this happens until resume", Colour.BAD))
    if not response.positions:
        return
    output.line()
    output.table(
        ("position", "key", "rule", "fault", "reason", "detail"),
        [
            (found.position, keys[found.position].short(), hit.rule, hit.fault, hit.reason, hit.detail)
            for found in response.positions
            for hit in found.hits
        ],
    )
