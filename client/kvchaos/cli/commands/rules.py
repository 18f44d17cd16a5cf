"""``kvchaos rules``: list, show, add, remove, enable and disable rules."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

from kvchaos.cli import offline
from kvchaos.cli.connection import connect
from kvchaos.cli.faults_view import show_change
from kvchaos.cli.output import Output
from kvchaos.cli.plain import iso, plain
from kvchaos.cli.suggest import nearest
from kvchaos.cli.values import duration
from kvchaos.control import ControlClient
from kvchaos.errors import ConfigError
from kvchaos.v1 import common_pb2, control_pb2

NAME = "rules"
HELP = "List the rules, and show, add, remove, enable or disable one."
CATALOGUE_PREFIX = "catalogue:"


def configure(parser: ArgumentParser) -> None:
    """Adds the action and what it is about."""
    parser.add_argument(
        "action", nargs="?", choices=tuple(_ACTIONS), default="list", help="what to do (default: list)"
    )
    parser.add_argument(
        "what",
        nargs="?",
        metavar="NAME|FILE",
        help=f"the rule; for add: a YAML file with rules, {CATALOGUE_PREFIX}ID, or - for stdin",
    )
    parser.add_argument(
        "--ttl", type=duration, metavar="DURATION", help="end the change after this, for example 5m"
    )


def run(arguments: Namespace, output: Output) -> None:
    """Asks the daemon and shows the answer."""
    if arguments.action != "list" and not arguments.what:
        raise ConfigError([f"rules {arguments.action} needs a {_NEEDS.get(arguments.action, 'rule name')}"])
    with connect(arguments) as client:
        _ACTIONS[arguments.action](client, arguments, output)


def _list(client: ControlClient, arguments: Namespace, output: Output) -> None:
    faults = client.get_status().fault_inject
    listed = client.list_rules()
    if output.as_json:
        output.json([_fault_inject(faults), *map(plain, listed.rules)])
        return
    rows = [_classic_row(faults), *(_row(rule, listed.halted) for rule in listed.rules)]
    output.table(("rule", "state", "source", "operation", "fault", "evaluated", "fired", "until"), rows)


def _show(client: ControlClient, arguments: Namespace, output: Output) -> None:
    rules = {rule.name: rule for rule in client.list_rules().rules}
    rule = rules.get(arguments.what)
    if rule is None:
        raise ConfigError([f"there is no rule {arguments.what!r}; {nearest(arguments.what, list(rules))}"])
    if output.as_json:
        output.json({**plain(rule), "definition": json.loads(rule.definition_json)})
        return
    output.pairs(
        [
            ("rule", rule.name),
            ("state", rule.state),
            ("source", rule.source),
            ("evaluated", rule.evaluated),
            ("fired", rule.fired),
        ]
    )
    output.line()
    output.line(json.dumps(json.loads(rule.definition_json), indent=2, ensure_ascii=False))


def _add(client: ControlClient, arguments: Namespace, output: Output) -> None:
    show_change(client.add_rules(_rule_text(arguments.what), arguments.ttl), output)


def _remove(client: ControlClient, arguments: Namespace, output: Output) -> None:
    show_change(client.remove_rule(arguments.what), output)


def _enable(client: ControlClient, arguments: Namespace, output: Output) -> None:
    show_change(client.switch_rule(arguments.what, True, arguments.ttl), output)


def _disable(client: ControlClient, arguments: Namespace, output: Output) -> None:
    show_change(client.switch_rule(arguments.what, False, arguments.ttl), output)


_ACTIONS: Mapping[str, Callable[[ControlClient, Namespace, Output], None]] = {
    "list": _list,
    "show": _show,
    "add": _add,
    "remove": _remove,
    "enable": _enable,
    "disable": _disable,
}
_NEEDS = {"add": f"file with rules, {CATALOGUE_PREFIX}ID, or - for stdin"}


def _rule_text(what: str) -> str:
    if what.startswith(CATALOGUE_PREFIX):
        return str(offline.catalogue_entry(what.removeprefix(CATALOGUE_PREFIX))["text"])
    if what == "-":
        return sys.stdin.read()
    try:
        return Path(what).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError([f"{what}: cannot be read: {reason}"]) from None


def _fault_inject(faults: common_pb2.FaultInject) -> dict[str, str]:
    selects = [
        *([f"rate {faults.rate:g} seed {faults.seed}"] if faults.rate else []),
        *([f"gap_indices {list(faults.gap_indices)}"] if faults.gap_indices else []),
        *([f"gap_tail_ratios {list(faults.gap_tail_ratios)}"] if faults.gap_tail_ratios else []),
    ]
    return {
        "rule": "fault_inject",
        "state": ("halted" if faults.halted else "armed") if selects else "idle",
        "operation": "load",
        "fault": "drop",
        "selects": ", ".join(selects) or "nothing",
    }


def _classic_row(faults: common_pb2.FaultInject) -> tuple[object, ...]:
    classic = _fault_inject(faults)
    return ("fault_inject", classic["state"], "", "load", f"drop ({classic['selects']})", "", "", "")


def _row(rule: control_pb2.RuleStatus, halted: bool) -> tuple[object, ...]:
    return (
        rule.name,
        "halted" if halted and rule.state == "armed" else rule.state,
        rule.source,
        ",".join(rule.operations),
        rule.fault,
        rule.evaluated,
        rule.fired,
        iso(rule.expires_at) if rule.HasField("expires_at") else "",
    )
