"""Runs the parts that are asked for, and writes the page from all results that there are."""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).parents[2]
KEPT = REPOSITORY / ".cache" / "bench"
PAGE = REPOSITORY / "docs" / "benchmarks.md"
PARTS = ("adapters", "drops", "decisions", "proxies", "inline", "scale", "blend")
"""In the order in which they run."""


def main() -> int:
    """Runs the command. Returns its exit code."""
    options = _parser().parse_args()
    _quiet()
    from tests.bench import report
    from tests.bench.machine import command_line, facts, load
    from tests.bench.results import Results

    folder = KEPT / "short" if options.short else KEPT
    failed = 0
    for name in options.parts or ([] if options.report else PARTS):
        results = Results(name, folder / f"{name}.json", facts(command_line()))
        started = time.monotonic()
        try:
            _modules()[name].run(results, options.short)
        except Exception as error:
            failed = 1
            print(f"{name}: {error}", file=sys.stderr)
        results.facts["load_after"] = load()
        results.save()
        print(f"{name}: {len(results.rows)} rows in {time.monotonic() - started:.0f} s", flush=True)
    runs = {path.stem: Results.read(path) for path in sorted(folder.glob("*.json"))}
    report.write(runs, options.page or (folder / PAGE.name if options.short else PAGE))
    for cells in report.target_table(runs):
        print("{:<68} {:>20} {:>14} {:>14}  {}".format(*cells))
    return failed


def _modules() -> Mapping[str, ModuleType]:
    from tests.bench.parts import adapters, blend, decisions, drops, inline, proxies, scale

    modules = (adapters, decisions, drops, inline, proxies, scale, blend)
    return {module.__name__.rsplit(".", 1)[1]: module for module in modules}


def _quiet() -> None:
    """LMCache logs and warns on import; the tables are what is asked for."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")
    os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
    os.environ.setdefault("LMCACHE_DISABLE_BANNER", "1")


def _part(name: str) -> str:
    """Not ``choices``: argparse would hold them against the empty list of a run of everything."""
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PARTS)}")
    return name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", type=_part, metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--short", action="store_true", help="fewer cases and rounds: about five minutes")
    parser.add_argument("--report", action="store_true", help="only write the page, from kept results")
    parser.add_argument("--page", type=Path, help="where the page goes; with --short beside its results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
