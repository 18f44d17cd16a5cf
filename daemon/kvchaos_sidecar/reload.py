"""Applies the configuration file again when it changes, or when told to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel
from watchfiles import awatch

from kvchaos.errors import ConfigError
from kvchaos_sidecar.config.lint import warnings_of
from kvchaos_sidecar.config.load import Configuration, compose, read
from kvchaos_sidecar.config.schema import RELOADABLE, Document
from kvchaos_sidecar.errors import NoConfigFile
from kvchaos_sidecar.rules.governor import Governor

log = logging.getLogger(__name__)

_POLL_MS = 1000
"""The file is looked at this often even without a notice from the kernel, for file systems that send none."""
_MAX_LINKS = 40
"""As many symlinks as Linux follows."""


@dataclass(frozen=True, slots=True)
class ReloadOutcome:
    """What became of one reload."""

    changed: bool
    """A new generation of rules is in force."""
    error: str = ""
    """Why it was refused; empty when it was applied. The rules in force stay then."""


class Reloader:
    """Owns the configuration in use. Belongs to the event loop's thread."""

    def __init__(
        self,
        configuration: Configuration,
        governor: Governor,
        on_outcome: Callable[[ReloadOutcome], None] = lambda outcome: None,
        settle_s: float = 0.1,
    ) -> None:
        """``on_outcome`` hears of every reload; a file counts as written when unchanged for ``settle_s``."""
        self._configuration = configuration
        self._governor = governor
        self._on_outcome = on_outcome
        self._settle_s = settle_s
        self._error = ""
        self._seen: bytes | None = configuration.content
        self._one_at_a_time = asyncio.Lock()

    @property
    def configuration(self) -> Configuration:
        """The configuration in use."""
        return self._configuration

    @property
    def error(self) -> str:
        """Why the last reload was refused; empty when it was applied."""
        return self._error

    async def reload(self) -> bool:
        """Reads the file and applies it, whole. True when a new generation of rules is in force.

        Raises:
            NoConfigFile: there is none.
            ConfigError: the file is bad, or changes what cannot change at runtime. Nothing has changed.
        """
        path = self._configuration.path
        if path is None:
            raise NoConfigFile("the daemon was started without a configuration file; nothing to reload")
        async with self._one_at_a_time:
            try:
                changed = await self._apply(path)
            except ConfigError as error:
                self._conclude(ReloadOutcome(False, str(error)))
                raise
            self._conclude(ReloadOutcome(changed))
            return changed

    async def watch(self) -> None:
        """Reloads whenever the file's content changes. Runs until cancelled; returns at once without a file.

        Sees plain writes, atomic renames, symlinks that are swapped anywhere on the way (as Kubernetes does
        for a ConfigMap), and a file that is deleted and created again.
        """
        path = self._configuration.path
        if path is None:
            return
        while True:
            await self._reload_if_changed(path)
            directories = await asyncio.to_thread(directories_on_the_way, path)
            with suppress(FileNotFoundError):
                await self._watch_directories(directories, path)

    async def _watch_directories(self, directories: set[Path], path: Path) -> None:
        """Reloads on notices from these directories, until others decide where ``path`` leads to."""
        async with aclosing(_notices(directories)) as notices:
            async for _ in notices:
                await self._reload_if_changed(path)
                if directories != await asyncio.to_thread(directories_on_the_way, path):
                    return

    async def _reload_if_changed(self, path: Path) -> None:
        if await self._settled_content(path) != self._seen:
            with suppress(ConfigError):
                await self.reload()

    async def _settled_content(self, path: Path) -> bytes | None:
        content = await asyncio.to_thread(_content, path)
        while content != self._seen:
            await asyncio.sleep(self._settle_s)
            later = await asyncio.to_thread(_content, path)
            if later == content:
                break
            content = later
        return content

    async def _apply(self, path: Path) -> bool:
        self._seen = None
        self._seen = await asyncio.to_thread(read, path)
        configuration = await asyncio.to_thread(compose, path, self._seen, self._configuration.arguments)
        fixed = _changes_that_need_a_restart(self._configuration.document, configuration.document)
        if fixed:
            raise ConfigError(fixed, str(path))
        self._configuration = configuration
        return self._governor.apply_document(configuration.document)

    def _conclude(self, outcome: ReloadOutcome) -> None:
        self._error = outcome.error
        if outcome.error:
            log.error("reload refused, the rules in force stay: %s", outcome.error)
        else:
            log.info("reloaded, generation %d", self._governor.snapshot().generation)
            warn_of_idle_rules(self._configuration.document)
        self._on_outcome(outcome)


def warn_of_idle_rules(document: Document) -> None:
    """Logs rules that can never fire."""
    for warning in warnings_of(document.rules):
        log.warning("%s", warning)


def _notices(directories: set[Path]) -> AsyncGenerator[object, None]:
    """One item for each change of an entry in the directories, and one when the polling interval is over."""
    return awatch(
        *directories,
        watch_filter=None,
        recursive=False,
        rust_timeout=_POLL_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )


def directories_on_the_way(path: Path) -> set[Path]:
    """The directories whose entries decide which file ``path`` leads to, as far as they exist."""
    directories = set()
    hop = path.absolute()
    for _ in range(_MAX_LINKS):
        directories |= {link.parent for link in (hop, *hop.parents) if link.is_symlink()}
        directories.add(hop.parent)
        if not hop.is_symlink():
            break
        hop = hop.parent / hop.readlink()
    return {_nearest_existing(directory.resolve()) for directory in directories}


def _nearest_existing(directory: Path) -> Path:
    return next(ancestor for ancestor in (directory, *directory.parents) if ancestor.is_dir())


def _content(path: Path) -> bytes | None:
    try:
        return read(path)
    except ConfigError:
        return None


def _changes_that_need_a_restart(before: Document, after: Document) -> list[str]:
    fixed = sorted(Document.model_fields.keys() - RELOADABLE)
    return [
        f"{place}: cannot change while the daemon runs; restart it, or put the old value back"
        for name in fixed
        for place in _differences(getattr(before, name), getattr(after, name), name)
    ]


def _differences(before: object, after: object, place: str) -> list[str]:
    """The deepest fields in which two parts of a document differ."""
    if before == after:
        return []
    if isinstance(before, BaseModel) and type(before) is type(after):
        return [
            found
            for name in type(before).model_fields
            for found in _differences(getattr(before, name), getattr(after, name), f"{place}.{name}")
        ]
    return [place]
