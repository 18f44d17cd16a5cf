"""The compose set, run by a real engine under a project name and ports of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.harness.processes import free_port

REPOSITORY = Path(__file__).parents[2]
FILES = (REPOSITORY / "docker-compose.yml", REPOSITORY / "deploy/ci/docker-compose.ci.yml")
PORTS = (
    "KVCHAOS_METRICS_PORT",
    "KVCHAOS_LMCACHE_PORT",
    "KVCHAOS_LMCACHE_HTTP_PORT",
    "KVCHAOS_PROMETHEUS_PORT",
)


SCRAPE_INTERVAL_S = 5


class CommandFailed(Exception):
    """A command ended with another code than 0. The message is what it printed."""


def run(*command: str, environment: Mapping[str, str] | None = None, timeout_s: float = 600.0) -> str:
    """Runs a command and returns its standard output. Raises CommandFailed."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    if done.returncode:
        raise CommandFailed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class ComposeSet:
    """One running copy of docker-compose.yml."""

    def __init__(self, project: str, files: Sequence[Path], environment: Mapping[str, str]) -> None:
        """``environment`` is what the files ask for. Published ports are chosen here."""
        self.project = project
        self._files = files
        self._environment = {**environment, **{name: str(free_port()) for name in PORTS}}

    def compose(self, *arguments: str, **options: Any) -> str:
        """Runs docker-compose for this set."""
        files = [part for path in self._files for part in ("-f", str(path))]
        command = ("docker-compose", "--project-name", self.project, *files, *arguments)
        return run(*command, environment=self._environment, **options)

    def up(self, *services: str) -> None:
        """Creates and starts; waits for what others depend on."""
        self.compose("up", "--detach", "--no-build", *services)

    def down(self) -> None:
        """Removes containers, networks and volumes."""
        self.compose(
            "--profile",
            "demo",
            "--profile",
            "blend",
            "down",
            "--volumes",
            "--remove-orphans",
            "--timeout",
            "10",
        )

    def logs(self) -> str:
        """The end of what the containers have written."""
        return self.compose("logs", "--no-color", "--tail=30")

    def inside(self, service: str, *command: str) -> str:
        """Runs a command in the service's container."""
        return run("docker", "exec", self.container(service), *command)

    def kvchaos(self, *arguments: str) -> Any:
        """What the kvchaos command in the sidecar's container answers, as JSON."""
        return json.loads(self.inside("sidecar", "kvchaos", "--json", *arguments))

    def container(self, service: str) -> str:
        """The id of the service's container. Raises CommandFailed when there is none."""
        labels = {"project": self.project, "service": service, "oneoff": "False"}
        filters = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()]
        found = run("docker", "ps", "--all", "--quiet", *filters).split()
        if len(found) != 1:
            raise CommandFailed(f"{service}: {len(found)} containers")
        return found[0]

    def inspect(self, service: str) -> Any:
        """What the engine knows of the service's container."""
        return json.loads(run("docker", "inspect", self.container(service)))[0]

    def healthy(self, service: str) -> bool:
        """Whether the container's own check passes."""
        state = self.inspect(service)["State"]
        return bool(state["Running"] and state["Health"]["Status"] == "healthy")

    def network(self, name: str) -> str:
        """The engine's name of one of the set's networks."""
        return f"{self.project}_{name}"

    def port(self, name: str) -> int:
        """The published port that the variable ``name`` chose."""
        return int(self._environment[name])

    def value(self, expression: str) -> float | None:
        """What Prometheus answers to an instant query: the sum of its samples; None when there are none."""
        samples = self.samples(expression)
        return sum(float(sample["value"][1]) for sample in samples) if samples else None

    def samples(self, expression: str) -> list[dict[str, Any]]:
        """The samples that Prometheus answers an instant query with."""
        query = urllib.parse.urlencode({"query": expression})
        return list(self._prometheus(f"query?{query}")["result"])

    def has_data(self, expression: str) -> bool:
        """Whether the expression had a value at some time in the last quarter of an hour."""
        end = time.time()
        query = urllib.parse.urlencode(
            {"query": expression, "start": end - 900, "end": end, "step": SCRAPE_INTERVAL_S}
        )
        return bool(self._prometheus(f"query_range?{query}")["result"])

    def label_values(self, metric: str, label: str) -> list[str]:
        """The values of a label, as Grafana asks for them."""
        match = urllib.parse.urlencode({"match[]": metric})
        return sorted(self._prometheus(f"label/{label}/values?{match}"))

    def targets(self) -> Iterator[tuple[str, str]]:
        """Job and health of every scrape target."""
        for target in self._prometheus("targets")["activeTargets"]:
            yield target["labels"]["job"], target["health"]

    def _prometheus(self, path: str) -> Any:
        url = f"http://127.0.0.1:{self.port('KVCHAOS_PROMETHEUS_PORT')}/api/v1/{path}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]
