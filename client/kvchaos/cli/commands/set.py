"""``kvchaos set``: other fault values until reset, restart or the end of their time to live."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from kvchaos.cli.connection import connect
from kvchaos.cli.faults_view import show_change
from kvchaos.cli.output import Output
from kvchaos.cli.values import duration, positions, ratio, ratios, seed
from kvchaos.errors import ConfigError

NAME = "set"
HELP = "Change the faults at runtime, over what the file says."


def configure(parser: ArgumentParser) -> None:
    """Adds a flag for each value."""
    parser.add_argument("--rate", type=ratio, help="share of keys dropped at load, in [0, 1]")
    parser.add_argument("--seed", type=seed, help="seed of the choice of keys")
    parser.add_argument(
        "--gap-indices",
        type=positions,
        metavar="I,J,...",
        help="positions always dropped, from the head; '' for none",
    )
    parser.add_argument(
        "--gap-tail-ratios",
        type=ratios,
        metavar="R,S,...",
        help="positions always dropped, as distance from the tail in [0, 1]; '' for none",
    )
    parser.add_argument(
        "--ttl", type=duration, metavar="DURATION", help="end the change after this, for example 5m"
    )


def run(arguments: Namespace, output: Output) -> None:
    """Sends the change and shows what is in force."""
    values = {name: getattr(arguments, name) for name in ("rate", "seed", "gap_indices", "gap_tail_ratios")}
    if all(value is None for value in values.values()):
        raise ConfigError(["nothing to set; give --rate, --seed, --gap-indices or --gap-tail-ratios"])
    with connect(arguments) as client:
        change = client.set_faults(**values, time_to_live=arguments.ttl)
    show_change(change, output)
