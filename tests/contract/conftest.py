"""Runs each test of the suite over every backend."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from kvchaos_sidecar.backends.contract import Backend
from tests.contract.backends import CASES, Case
from tests.harness.redis import RedisServer

T = TypeVar("T")


class Driver:
    """Runs scenarios against backends of one kind, each started before and closed after."""

    def __init__(self, case: Case, request: pytest.FixtureRequest) -> None:
        self.case = case
        self._request = request

    def __call__(self, scenario: Callable[[Backend], Awaitable[T]]) -> T:
        """The value of one scenario, run against a new backend on the test's store."""

        async def run() -> T:
            backend = self.case.make(self._request)
            await backend.start()
            try:
                return await scenario(backend)
            finally:
                await backend.close()

        return asyncio.run(run())


@pytest.fixture(params=CASES)
def drive(request: pytest.FixtureRequest) -> Driver:
    return Driver(CASES[request.param], request)


@pytest.fixture(scope="session", autouse=True)
def _enough_descriptors() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def empty_redis(redis_server: RedisServer) -> RedisServer:
    """A Redis server that holds nothing when the test begins."""
    with redis_server.client() as client:
        client.flushall()
    return redis_server
