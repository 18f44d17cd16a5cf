import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from tests.harness.scripted_daemon import ScriptedDaemon
from tests.harness.waiting import eventually

from kvchaos.client import L2Client
from kvchaos.lmcache.usage_probe import UsageProbe
from kvchaos.v1 import cache_pb2


class Daemon:
    """Answers with 1, 2, 3 ... bytes, and only while it may."""

    def __init__(self, directory: Path) -> None:
        self.scripted = ScriptedDaemon(directory)
        self.scripted.answers["GetUsage"] = self._answer
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.questions = 0

    def _answer(self, request: object, context: grpc.ServicerContext) -> cache_pb2.GetUsageResponse:
        self.questions += 1
        number = self.questions
        self.may_answer.wait()
        return cache_pb2.GetUsageResponse(total_bytes=number)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        answering = Daemon(Path(directory))
        yield answering
        answering.may_answer.set()
        answering.scripted.close()


def total(probe: UsageProbe) -> int | None:
    usage = probe.latest()
    return None if usage is None else usage.total_bytes


def test_each_question_gets_a_new_answer_and_silence_the_last_one(daemon: Daemon) -> None:
    with L2Client(daemon.scripted.target, "test") as client:
        client.wait_connected()
        now = [0.0]
        probe = UsageProbe(client, lambda: now[0])
        assert [total(probe), total(probe)] == [1, 2]
        daemon.may_answer.clear()
        assert total(probe) == 2
        now[0] = 10.0
        for _ in range(100):
            assert total(probe) == 2
        assert daemon.questions == 3
        daemon.may_answer.set()
        eventually(lambda: (total(probe) or 0) > 3)


def test_nothing_is_known_before_the_first_answer() -> None:
    with L2Client("unix:/nowhere/cache.sock", "test") as client:
        client.wait_connected()
        assert UsageProbe(client, lambda: 0.0).latest() is None
