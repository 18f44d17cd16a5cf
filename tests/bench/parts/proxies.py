"""Against the network proxies a user would put in front of Redis instead."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing

from tests.bench.grid import KIB, MIB, measure_grid
from tests.bench.lmcache_side import Case, Memory, Side
from tests.bench.results import Results
from tests.bench.services import directory, haproxy, hosted, nginx, plugin, redis, sidecar

TITLE = "Against network proxies"
PROGRAMS = ("redis-server", "haproxy", "nginx")

DIRECT = "resp, direct"
HAPROXY = "resp through HAProxy"
NGINX = "resp through nginx"
SIDECAR_REDIS = "sidecar, redis"
SIDECAR_HOSTED_RESP = "sidecar, hosted resp"

_MEMORY_BYTES = 256 * MIB
_KEYS = 32


def cases(short: bool) -> Sequence[Case]:
    """Batches of 32 keys."""
    sizes = (256 * KIB, MIB) if short else (64 * KIB, 256 * KIB, MIB, 4 * MIB)
    return [Case(size, _KEYS) for size in sizes]


def run(results: Results, short: bool) -> None:
    """Measures every way to the same Redis server."""
    memory = Memory(_MEMORY_BYTES)
    with ExitStack() as stack:
        place = stack.enter_context(directory())
        port = stack.enter_context(redis(place))

        def resp(through: int) -> dict[str, object]:
            return {"type": "resp", "host": "127.0.0.1", "port": through}

        own = stack.enter_context(sidecar({"type": "redis", "host": "127.0.0.1", "port": port}))
        hosting = stack.enter_context(sidecar(hosted(resp(port))))
        specs = {
            SIDECAR_REDIS: plugin(own.cache_target),
            SIDECAR_HOSTED_RESP: plugin(hosting.cache_target),
            HAPROXY: resp(stack.enter_context(haproxy(place, port))),
            NGINX: resp(stack.enter_context(nginx(place, port))),
            DIRECT: resp(port),
        }
        sides = [stack.enter_context(closing(Side(name, spec, memory))) for name, spec in specs.items()]
        measure_grid(results, "proxies", sides, cases(short), memory, short)
