"""Steady traffic beside a test: the demo's driver in a container of its own."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Self

from tests.deploy.compose import ComposeSet, run


class SteadyTraffic:
    """Prompts that are asked for again and again while the test breaks things."""

    def __init__(self, stack: ComposeSet, seconds: float = 900.0) -> None:
        output = stack.compose("run", "--detach", "demo", "--steady", str(seconds))
        self._container = output.split()[-1]
        self._forgotten = 0

    def running(self) -> bool:
        """Whether the driver has neither crashed nor finished."""
        return run("docker", "inspect", "--format", "{{.State.Running}}", self._container).strip() == "true"

    def log(self) -> str:
        """Everything the driver has printed."""
        return run("docker", "logs", self._container)

    def all(self) -> list[dict[str, object]]:
        """What was served of each prompt since the start: asked, hit and intact."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    def forget(self) -> None:
        """Makes :meth:`since` start here."""
        self._forgotten = len(self.all())

    def since(self) -> list[dict[str, object]]:
        """What was served since :meth:`forget`."""
        return self.all()[self._forgotten :]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run("docker", "rm", "--force", self._container)
