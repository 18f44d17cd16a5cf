"""``kvchaos get``: the effective configuration, with the source of every field."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from kvchaos.cli.connection import connect
from kvchaos.cli.output import Output
from kvchaos.cli.plain import iso
from kvchaos.errors import ConfigError
from kvchaos.v1 import control_pb2

NAME = "get"
HELP = "Show the effective configuration and where every value comes from."


def configure(parser: ArgumentParser) -> None:
    """Adds the field."""
    parser.add_argument("field", nargs="?", help="only this field or part, for example fault_inject.rate")


def run(arguments: Namespace, output: Output) -> None:
    """Asks the daemon and shows the answer."""
    with connect(arguments) as client:
        fields = client.get_config().fields
    show_fields(_chosen(fields, arguments.field), output)


def show_fields(fields: Sequence[control_pb2.ConfigField], output: Output) -> None:
    """The fields as a table or as JSON."""
    if output.as_json:
        output.json([_plain(field) for field in fields])
        return
    output.table(
        ("field", "value", "source", "until"),
        [(field.path, field.value_json, field.source, iso(field.expires_at)) for field in fields],
    )


def _plain(field: control_pb2.ConfigField) -> dict[str, object]:
    return {
        "path": field.path,
        "value": json.loads(field.value_json),
        "source": field.source,
        "expires_at": iso(field.expires_at) or None,
    }


def _chosen(fields: Sequence[control_pb2.ConfigField], name: str | None) -> Sequence[control_pb2.ConfigField]:
    if name is None:
        return fields
    chosen = [field for field in fields if f"{field.path}.".startswith(f"{name}.")]
    if not chosen:
        known = ", ".join(dict.fromkeys(field.path.split(".")[0] for field in fields))
        raise ConfigError([f"there is no field {name!r}; parts are {known}"])
    return chosen
