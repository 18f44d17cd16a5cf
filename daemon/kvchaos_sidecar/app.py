"""The composition root: makes every part, starts them in order, ends them in the reverse order."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial

from prometheus_client import CollectorRegistry

from kvchaos import __version__
from kvchaos.errors import ConfigError
from kvchaos.v1.control_pb2_grpc import add_ControlServicer_to_server
from kvchaos_sidecar.announcements import Announcer
from kvchaos_sidecar.backends.contract import Backend
from kvchaos_sidecar.backends.fs import FsBackend
from kvchaos_sidecar.backends.memory import MemoryBackend
from kvchaos_sidecar.backends.staging import StagingArea
from kvchaos_sidecar.background import Background, every
from kvchaos_sidecar.clock import Clock
from kvchaos_sidecar.config import schema
from kvchaos_sidecar.config.load import Configuration
from kvchaos_sidecar.config.rule import Rule
from kvchaos_sidecar.errors import NoConfigFile
from kvchaos_sidecar.expiry import announce_expiry
from kvchaos_sidecar.health import PROBE_INTERVAL_S, HealthMonitor
from kvchaos_sidecar.http_server import HttpServer
from kvchaos_sidecar.journal import Journal
from kvchaos_sidecar.metrics import Metrics, is_armed
from kvchaos_sidecar.plane import DataPlane
from kvchaos_sidecar.recording.events import faults_in_force
from kvchaos_sidecar.recording.recorder import Recorder
from kvchaos_sidecar.reload import Reloader, warn_of_idle_rules
from kvchaos_sidecar.rpc.boundary import Boundary
from kvchaos_sidecar.rpc.cache import CacheServicer, Greeting
from kvchaos_sidecar.rpc.control import ControlServicer
from kvchaos_sidecar.rpc.handoff import HandoffListener
from kvchaos_sidecar.rpc.inline import InlineTransfer, add_cache_servicer
from kvchaos_sidecar.rpc.packet_calls import PacketMethods
from kvchaos_sidecar.rpc.server import GrpcListener, Security
from kvchaos_sidecar.rpc.session_status import DaemonStatus
from kvchaos_sidecar.rpc.status import warning
from kvchaos_sidecar.rules.governor import FaultSnapshot, Governor
from kvchaos_sidecar.sessions.registry import SessionRegistry
from kvchaos_sidecar.sessions.session import EndReason, SessionLimits
from kvchaos_sidecar.stop_conditions import StopConditions

log = logging.getLogger(__name__)

CACHE_SERVICE = "kvchaos.v1.L2Cache"
CONTROL_SERVICE = "kvchaos.v1.Control"

DRAIN_S = 5.0
"""How long calls and grants have to end by themselves when the daemon does."""
STOP_GRACE_S = 1.0
_EXPIRY_INTERVAL_S = 1.0
_DRAIN_POLL_S = 0.02
_INLINE_THREADS = 8


class Sidecar:
    """One daemon.

    Attributes:
        cache: the listener for cache servers.
        control: the listener for operators.
        http: the listener for probes and scrapes.
    """

    def __init__(
        self, configuration: Configuration, backend: Backend, registry: CollectorRegistry, clock: Clock
    ) -> None:
        """Wires the parts. Opens nothing but the files of TLS and token; raises ConfigError for those."""
        document = configuration.document
        security = Security(document.listen)
        self._backend = backend
        self._metrics = Metrics(registry, backend.type_name, __version__)
        self._governor = Governor(document, clock)
        self._reloader = Reloader(
            configuration, self._governor, lambda outcome: self._metrics.reloaded(not outcome.error)
        )
        journal = Journal(clock)
        Announcer(self._governor, self._metrics, journal)
        self._recorder = self._make_recorder(document, clock)
        self._plane = DataPlane(
            backend, self._governor, journal, self._metrics, document.limits.staging_bytes, self._recorder
        )
        self._sessions = SessionRegistry(
            clock,
            SessionLimits(
                document.limits.lock_ttl.total_seconds(),
                document.limits.grant_ttl.total_seconds(),
                document.limits.session_grants,
            ),
            document.limits.max_sessions,
            self._metrics,
            self._plane.give_back_locks,
        )
        self._plane.follow(self._sessions)
        if self._recorder is not None:
            self._sessions.on_end(self._recorder.session_ended)
            self._governor.subscribe(self._recorder.faults_changed)
        self._health = HealthMonitor(backend, clock, self._metrics)
        self._boundary = Boundary(clock, self._metrics)
        self._inline_threads = ThreadPoolExecutor(_INLINE_THREADS, thread_name_prefix="kvchaos-inline")
        servicer = self._make_cache_servicer(document)
        self._handoff = self._make_handoff(document, servicer)
        self.cache = GrpcListener(
            "listen.cache",
            document.listen.cache,
            CACHE_SERVICE,
            partial(add_cache_servicer, servicer),
            security,
        )
        status = DaemonStatus(clock.time(), backend, self._health, self._sessions, self._plane)
        control = ControlServicer(self._governor, self._reloader, journal, status, clock, __version__)
        self.control = GrpcListener(
            "listen.control",
            document.listen.control,
            CONTROL_SERVICE,
            partial(add_ControlServicer_to_server, control),
            security,
        )
        self.http = HttpServer(document.listen.http, registry, self._readiness)
        self._background = Background()
        self._started = AsyncExitStack()
        self._serving = False
        self._rules_in_force: set[str] = set()

    def arm(self, rules: Sequence[Rule]) -> None:
        """Adds rules until reset or the end. Raises ConfigError when they may not be armed here."""
        self._governor.add_rules(rules)

    async def start(self) -> None:
        """Opens everything. When one part cannot be opened, closes what was.

        Raises:
            ConfigError: the recording cannot be written.
            BackendError: the store cannot be used.
            ListenError: a listener cannot be opened.
        """
        try:
            await self._open_all()
        except BaseException:
            await self._started.aclose()
            raise
        self._serving = True
        log.info(
            "ready: cache %s, control %s, http %s",
            self.cache.address,
            self.control.address,
            self.http.address,
        )

    async def stop(self) -> None:
        """Lets calls in progress end, then closes everything."""
        log.info("draining")
        self._serving = False
        self._boundary.close()
        self._sessions.release_held()
        await asyncio.gather(self.cache.drain(), self.control.drain())
        await self._drain()
        self._sessions.end_all(EndReason.DRAINED)
        await self._plane.settle(STOP_GRACE_S)
        await self._started.aclose()
        log.info("ended")

    def reload(self) -> None:
        """Reads the configuration file again, beside the traffic. The outcome is logged."""
        self._background.spawn("reload", self._reload())

    async def _open_all(self) -> None:
        on_exit = self._started
        self._warn()
        if self._recorder is not None:
            self._recorder.start()
            on_exit.push_async_callback(asyncio.to_thread, self._recorder.close)
        await self._backend.start()
        on_exit.push_async_callback(self._backend.close)
        on_exit.callback(self._plane.close)
        on_exit.callback(self._inline_threads.shutdown, wait=False)
        self._follow_changes()
        on_exit.push_async_callback(self._background.close)
        await self._check_health()
        self.http.start()
        on_exit.callback(self.http.stop)
        if self._handoff is not None:
            await self._handoff.start()
            on_exit.push_async_callback(self._handoff.close)
        for listener in (self.control, self.cache):
            await listener.start()
            on_exit.push_async_callback(listener.stop, STOP_GRACE_S)
        self._background.spawn("health", every(PROBE_INTERVAL_S, self._check_health))

    def _follow_changes(self) -> None:
        self._metrics.read_state_from(
            lambda: len(self._sessions.all()),
            lambda: self._sessions.locks_total,
            lambda: self._sessions.grants_total,
            lambda: self._sessions.held_total,
        )
        self._metrics.faults_changed(self._governor.snapshot())
        self._rules_in_force = set(self._governor.snapshot().rules)
        self._governor.subscribe(self._metrics.faults_changed)
        self._governor.subscribe(lambda _: self._sessions.notify_all())
        self._governor.subscribe(self._release_held)
        self._background.spawn("expiry", every(_EXPIRY_INTERVAL_S, self._expire))
        self._background.spawn("runtime-expiry", announce_expiry(self._governor))
        self._watch_stop_conditions()
        self._background.spawn("config-watch", self._reloader.watch())

    def _watch_stop_conditions(self) -> None:
        conditions = self._reloader.configuration.document.safety.stop_conditions
        watcher = StopConditions(self._governor, self._metrics.stop_condition_tripped)
        for condition in conditions:
            self._metrics.has_stop_condition(condition.name)
            self._background.spawn(f"stop-condition {condition.name}", watcher.watch(condition))

    def _release_held(self, snapshot: FaultSnapshot) -> None:
        """Lets calls go on that are kept waiting by what is not in force any more."""
        if snapshot.halted:
            self._sessions.release_held()
        else:
            self._sessions.release_held_by(self._rules_in_force - set(snapshot.rules))
        self._rules_in_force = set(snapshot.rules)

    async def _expire(self) -> None:
        self._sessions.expire()

    async def _check_health(self) -> None:
        health = await self._health.check()
        await self.cache.report(serving=health.healthy)

    async def _drain(self) -> None:
        deadline = asyncio.get_running_loop().time() + DRAIN_S
        while self._boundary.calls or self._sessions.grants_total:
            if asyncio.get_running_loop().time() > deadline:
                log.warning(
                    "%d calls and %d grants did not end in time",
                    self._boundary.calls,
                    self._sessions.grants_total,
                )
                return
            await asyncio.sleep(_DRAIN_POLL_S)

    async def _reload(self) -> None:
        try:
            await self._reloader.reload()
        except NoConfigFile as error:
            log.warning("%s", error)
        except ConfigError:
            return  # the reloader has said why

    def _readiness(self) -> str:
        return self._health.readiness() if self._serving else "starting or ending"

    def _warn(self) -> None:
        snapshot = self._governor.snapshot()
        nothing = "" if is_armed(snapshot) else "; pass-through until a rule is set"
        backend = f"{self._backend.type_name} {self._backend.description}"
        log.warning("%s; backend %s%s", warning(snapshot), backend, nothing)
        warn_of_idle_rules(self._reloader.configuration.document)

    def _make_recorder(self, document: schema.Document, clock: Clock) -> Recorder | None:
        if not document.recording.path:
            return None
        facts = {
            "daemon_version": __version__,
            "started_at": clock.time(),
            "backend": f"{self._backend.type_name} {self._backend.description}",
            "environment": document.environment,
        }
        return Recorder(
            document.recording,
            lambda: {**facts, **faults_in_force(self._governor.snapshot())},
            clock,
            self._metrics.recording_lost,
        )

    def _make_handoff(self, document: schema.Document, servicer: CacheServicer) -> HandoffListener | None:
        path = document.listen.handoff_path
        if path is None:
            return None
        allowed = document.handoff.allow_uids or (os.getuid(), 0)
        methods = PacketMethods(self._boundary, servicer.packet_handlers)
        return HandoffListener(path, self._sessions, allowed, self._plane.finish_load, methods, self._metrics)

    def _make_cache_servicer(self, document: schema.Document) -> CacheServicer:
        return CacheServicer(
            self._plane,
            self._sessions,
            self._backend,
            self._governor,
            self._health,
            InlineTransfer(self._inline_threads),
            self._boundary,
            Greeting(__version__, document.limits.grant_ttl.total_seconds(), document.listen.handoff_path),
        )


def make_backend(document: schema.Document) -> Backend:
    """The store that the document names, not yet started.

    Raises:
        ConfigError: its extra is not installed, or its settings are wrong.
    """
    settings = document.backend
    match settings:
        case schema.FsBackend():
            return FsBackend(settings.base_path)
        case schema.MemoryBackend():
            return MemoryBackend(settings.capacity_bytes)
        case schema.RedisBackend():
            return _make_redis_backend(settings, document.limits.staging_bytes)
        case schema.LMCacheBackend():
            return _make_lmcache_backend(settings, document.limits.staging_bytes)


def _make_redis_backend(settings: schema.RedisBackend, staging_bytes: int) -> Backend:
    try:
        from kvchaos_sidecar.backends.redis import RedisBackend
        from kvchaos_sidecar.backends.redis_client import RedisAddress
    except ModuleNotFoundError as error:
        raise _not_installed(settings.type, error) from error
    address = RedisAddress(
        settings.host, settings.port, settings.db, settings.username, settings.password.get_secret_value()
    )
    return RedisBackend(address, StagingArea(staging_bytes), settings.capacity_bytes)


def _make_lmcache_backend(settings: schema.LMCacheBackend, staging_bytes: int) -> Backend:
    try:
        from kvchaos_sidecar.backends.lmcache.backend import LMCacheBackend
    except ModuleNotFoundError as error:
        raise _not_installed(settings.type, error) from error
    return LMCacheBackend(settings.inner, StagingArea(staging_bytes))


def _not_installed(backend: str, error: ModuleNotFoundError) -> ConfigError:
    missing = f"backend.type: {backend} needs {error.name}, which is not installed"
    return ConfigError([f"{missing}; pip install 'kvchaos[{backend}]'"])
