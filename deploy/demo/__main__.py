"""The demo on one machine: a real LMCache server whose L2 runs through a sidecar."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.harness.lmcache import LMCacheServer, plugin_spec
from tests.harness.processes import ManagedProcess, ProcessFailed, free_port

from deploy.demo import scenario
from deploy.demo.traffic import connect
from kvchaos.control import ControlClient

SHOWN_METRICS = ("kvchaos_drops_total{", 'kvchaos_keys_total{op="load"', "kvchaos_generation ")
SIDECAR_START_S = 30.0


def main() -> int:
    """Runs the scenario and prints what it showed. 0 when every step held."""
    console = Console(highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="kvchaos-demo-"))
    started = time.monotonic()
    try:
        with _stack(directory, console) as stack:
            rows = []
            for row in scenario.run(stack):
                rows.append(row)
                console.print(f"  {row.step}: {row.served} of {row.asked} chunks served", style="green")
            console.print(_table(rows))
            console.print("From /metrics:")
            for line in scenario.metric_lines(stack.metrics_url, SHOWN_METRICS):
                if not line.endswith(" 0.0"):
                    console.print(f"  {line}", style="dim", soft_wrap=True)
    except (scenario.StepFailed, ProcessFailed) as error:
        console.print(f"failed: {error}", style="bold red")
        console.print(f"logs are kept in {directory}")
        return 1
    shutil.rmtree(directory)
    console.print(f"done in {time.monotonic() - started:.0f} s")
    return 0


@contextmanager
def _stack(directory: Path, console: Console) -> Iterator[scenario.Stack]:
    http = f"127.0.0.1:{free_port()}"
    rule_file = directory / "rules.yaml"
    rule_file.write_text(_rules(directory, http))
    console.print("starting the sidecar (fs backend) ...")
    with _sidecar(directory, rule_file) as sidecar:
        sidecar.wait_until(lambda: _ready(http), SIDECAR_START_S, "kvchaos-sidecar")
        console.print("starting a real LMCache server on the CPU, its L2 behind the plugin ...")
        server = LMCacheServer([plugin_spec(f"unix:{directory}/cache.sock")], directory / "lmcache.log")
        try:
            server.wait_ready()
            with (
                connect(server.rpc_url, server.http_url, scenario.CHUNKS) as traffic,
                ControlClient(f"unix:{directory}/control.sock") as control,
            ):
                console.print(f"storing {scenario.CHUNKS} chunks, then asking for them again ...")
                yield scenario.Stack(traffic, control, rule_file, f"http://{http}/metrics", server.clear_l1)
        finally:
            server.stop()


def _sidecar(directory: Path, rule_file: Path) -> ManagedProcess:
    program = str(Path(sys.executable).parent / "kvchaos-sidecar")
    return ManagedProcess([program, "--config", str(rule_file)], directory / "sidecar.log")


def _rules(directory: Path, http: str) -> str:
    listen = {
        "cache": f"unix:{directory}/cache.sock",
        "control": f"unix:{directory}/control.sock",
        "http": http,
    }
    backend = {"type": "fs", "base_path": str(directory / "l2")}
    return (
        "version: 1\n"
        f"listen: {json.dumps(listen)}\n"
        f"backend: {json.dumps(backend)}\n"
        "fault_inject: {gap_tail_ratios: [0.5]}\n"
    )


def _ready(http: str) -> bool:
    try:
        return bool(scenario.metric_lines(f"http://{http}/metrics", ("kvchaos_build_info",)))
    except OSError:
        return False


def _table(rows: list[scenario.Row]) -> Table:
    table = Table(title="One prompt of 8 chunks, looked up with host memory emptied", title_justify="left")
    for name in ("step", "rules in force"):
        table.add_column(name)
    for name in ("asked", "dropped", "served", "intact"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.step,
            row.rules,
            str(row.asked),
            str(row.dropped),
            str(row.served),
            "yes" if row.intact else "no",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
