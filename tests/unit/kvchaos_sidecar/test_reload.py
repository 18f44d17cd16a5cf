"""Real files, written in every way in which configuration files are written."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kvchaos.errors import ConfigError
from kvchaos_sidecar.clock import SystemClock
from kvchaos_sidecar.config.load import load
from kvchaos_sidecar.errors import NoConfigFile
from kvchaos_sidecar.reload import Reloader, ReloadOutcome, directories_on_the_way
from kvchaos_sidecar.rules.governor import Governor

Write = Callable[[Path, str], None]


def text(rate: float, base_path: str = "/data") -> str:
    return f"version: 1\nbackend: {{type: fs, base_path: {base_path}}}\nfault_inject: {{rate: {rate}}}\n"


class Daemon:
    """A reloader over a real file, and what came of its reloads."""

    def __init__(self, path: Path, arguments: dict | None = None) -> None:
        configuration = load(path, arguments)
        self.governor = Governor(configuration.document, SystemClock())
        self.outcomes: asyncio.Queue[ReloadOutcome] = asyncio.Queue()
        self.reloader = Reloader(configuration, self.governor, self.outcomes.put_nowait, settle_s=0.02)

    @property
    def rate(self) -> float:
        return self.governor.snapshot().rate

    async def outcome_where(self, accept: Callable[[ReloadOutcome], bool]) -> ReloadOutcome:
        async with asyncio.timeout(20):
            while True:
                outcome = await self.outcomes.get()
                if accept(outcome):
                    return outcome


@asynccontextmanager
async def watching(path: Path) -> AsyncIterator[Daemon]:
    daemon = Daemon(path)
    task = asyncio.create_task(daemon.reloader.watch())
    try:
        yield daemon
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def plain_write(path: Path, content: str) -> None:
    path.write_text(content)


def rename_over(path: Path, content: str) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(content)
    beside.rename(path)


def delete_and_create(path: Path, content: str) -> None:
    path.unlink()
    path.write_text(content)


def config_map_swap(path: Path, content: str) -> None:
    """As the kubelet does: a new directory, and ``..data`` renamed over to point to it."""
    folder = path.parent
    old = (folder / "..data").resolve()
    fresh = folder / f"{old.name}.next"
    fresh.mkdir()
    (fresh / path.name).write_text(content)
    (folder / "..data_tmp").symlink_to(fresh.name)
    os.rename(folder / "..data_tmp", folder / "..data")
    (old / path.name).unlink()
    old.rmdir()


def file_at(folder: Path, content: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(content)
    return path


def config_map_at(folder: Path, content: str) -> Path:
    first = folder / "..first"
    first.mkdir()
    (first / "config.yaml").write_text(content)
    (folder / "..data").symlink_to(first.name)
    (folder / "config.yaml").symlink_to("..data/config.yaml")
    return folder / "config.yaml"


def linked_from_elsewhere(folder: Path, content: str) -> Path:
    (folder / "real").mkdir()
    (folder / "etc").mkdir()
    file_at(folder / "real", content)
    (folder / "etc" / "config.yaml").symlink_to("../real/config.yaml")
    return folder / "etc" / "config.yaml"


def write_to_target(path: Path, content: str) -> None:
    rename_over(path.resolve(), content)


def run(scenario: Awaitable[None]) -> None:
    async def body() -> None:
        await scenario

    asyncio.run(body())


@pytest.mark.parametrize(
    ("make", "write"),
    [
        (file_at, plain_write),
        (file_at, rename_over),
        (file_at, delete_and_create),
        (config_map_at, config_map_swap),
        (linked_from_elsewhere, write_to_target),
    ],
)
def test_every_way_of_writing_is_seen_and_seen_again(
    tmp_path: Path, make: Callable[[Path, str], Path], write: Write
) -> None:
    async def scenario() -> None:
        path = make(tmp_path, text(0.1))
        async with watching(path) as daemon:
            for rate in (0.2, 0.3):
                await asyncio.to_thread(write, path, text(rate))
                outcome = await daemon.outcome_where(lambda outcome: not outcome.error)
                assert outcome.changed
                assert daemon.rate == rate
            assert daemon.governor.snapshot().generation == 3

    run(scenario())


def test_a_change_before_the_watch_begins_is_not_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = file_at(tmp_path, text(0.1))
        daemon = Daemon(path)
        path.write_text(text(0.2))
        task = asyncio.create_task(daemon.reloader.watch())
        await daemon.outcome_where(lambda outcome: outcome.changed)
        assert daemon.rate == 0.2
        task.cancel()

    run(scenario())


def test_a_bad_file_leaves_the_rules_and_a_good_one_ends_the_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = file_at(tmp_path, text(0.1))
        async with watching(path) as daemon:
            rename_over(path, text(1.5))
            refused = await daemon.outcome_where(lambda outcome: bool(outcome.error))
            assert refused.error == f"{path}: fault_inject.rate: 1.5 is not in [0, 1]"
            assert daemon.reloader.error == refused.error
            assert (daemon.rate, daemon.governor.snapshot().generation) == (0.1, 1)
            rename_over(path, text(0.2))
            await daemon.outcome_where(lambda outcome: not outcome.error)
            assert (daemon.rate, daemon.reloader.error) == (0.2, "")

    run(scenario())


def test_a_file_that_is_gone_is_an_error_until_it_is_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        folder = tmp_path / "mount"
        folder.mkdir()
        path = file_at(folder, text(0.1))
        async with watching(path) as daemon:
            path.unlink()
            folder.rmdir()
            gone = await daemon.outcome_where(lambda outcome: bool(outcome.error))
            assert "cannot be read: No such file or directory" in gone.error
            assert daemon.rate == 0.1
            folder.mkdir()
            file_at(folder, text(0.2))
            await daemon.outcome_where(lambda outcome: not outcome.error)
            assert daemon.rate == 0.2

    run(scenario())


def test_a_rewrite_with_the_same_bytes_is_not_a_reload(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = file_at(tmp_path, text(0.1))
        async with watching(path) as daemon:
            rename_over(path, text(0.1))
            (tmp_path / "another-file").write_text("noise")
            rename_over(path, text(0.2))
            await daemon.outcome_where(lambda outcome: outcome.changed)
            assert daemon.outcomes.empty()
            assert daemon.governor.snapshot().generation == 2

    run(scenario())


def test_what_needs_a_restart_is_refused_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = file_at(tmp_path, text(0.1))
        daemon = Daemon(path)
        path.write_text(
            text(0.2, base_path="/other") + "listen: {http: '127.0.0.1:1'}\nlimits: {max_sessions: 1}\n"
        )
        with pytest.raises(ConfigError) as caught:
            await daemon.reloader.reload()
        advice = "cannot change while the daemon runs; restart it, or put the old value back"
        assert set(caught.value.problems) == {
            f"backend.base_path: {advice}",
            f"listen.http: {advice}",
            f"limits.max_sessions: {advice}",
        }
        assert daemon.rate == 0.1
        path.write_text("version: 1\nbackend: {type: memory, capacity_bytes: 5}\n")
        with pytest.raises(ConfigError, match="backend: cannot change"):
            await daemon.reloader.reload()

    run(scenario())


def test_a_reload_without_a_change_keeps_the_generation(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = file_at(tmp_path, text(0.1))
        daemon = Daemon(path)
        path.write_text(text(0.1) + "# a comment\n")
        assert not await daemon.reloader.reload()
        assert daemon.governor.snapshot().generation == 1
        path.write_text(text(0.2))
        assert await daemon.reloader.reload()
        assert daemon.governor.snapshot().generation == 2

    run(scenario())


def test_arguments_stay_over_the_reloaded_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = file_at(tmp_path, text(0.1))
        daemon = Daemon(path, {"fault_inject": {"rate": 0.9}})
        path.write_text(text(0.2) + "  # and a comment\n")
        assert not await daemon.reloader.reload()
        assert daemon.rate == 0.9

    run(scenario())


def test_without_a_file_there_is_nothing_to_reload_or_to_watch() -> None:
    async def scenario() -> None:
        arguments = {"version": 1, "backend": {"type": "memory", "capacity_bytes": 5}}
        configuration = load(None, arguments)
        reloader = Reloader(configuration, Governor(configuration.document, SystemClock()))
        with pytest.raises(NoConfigFile, match="without a configuration file"):
            await reloader.reload()
        async with asyncio.timeout(10):
            await reloader.watch()

    run(scenario())


def test_all_directories_that_decide_where_a_config_map_leads_are_watched(tmp_path: Path) -> None:
    folder = tmp_path / "mount"
    folder.mkdir()
    path = config_map_at(folder, text(0.1))
    (tmp_path / "link").symlink_to("mount")
    assert directories_on_the_way(path) == {folder, folder / "..first"}
    assert directories_on_the_way(tmp_path / "link" / "config.yaml") == {tmp_path, folder, folder / "..first"}
    assert directories_on_the_way(tmp_path / "no" / "such" / "file") == {tmp_path}
