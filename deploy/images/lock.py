"""Writes requirements/*.txt: every package of an image, pinned, in the versions pip resolves today.

Run it with the Python of the images (3.11): ``python deploy/images/lock.py``. torch.txt is what the LMCache
images and the blend image share. The images install these files with ``--no-deps``: what is not listed is not
there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]
OUTPUT = Path(__file__).parent / "requirements"

IMAGES = {"sidecar": ("sidecar", "redis"), "lmcache": ("sidecar", "redis", "lmcache"), "blend": ("blend",)}
"""Extras of kvchaos in each image."""

LEFT_OUT = frozenset(
    {
        "awscrt",
        "cuda-python",
        "cufile-python",
        "cupy-cuda13x",
        "google-api-core",
        "google-cloud-bigtable",
        "nvtx",
        "pytest",
        "setuptools-scm",
    }
)
"""What LMCache 0.5.6 declares and does not need on a CPU: GPU libraries, cloud stores, build tools."""


OLDEST_PYTHON = "3.11.0"
"""The base image may have any patch release of 3.11; requirements of the oldest hold for all."""

FOR_OLD_PYTHON = ("async-timeout",)
"""What a requirement asks for on early patch releases only, so that pip may not resolve it by itself."""


def resolve(extras: list[str]) -> dict[str, dict[str, Any]]:
    """Metadata of every package that pip would install for kvchaos with ``extras``, by canonical name."""
    with tempfile.NamedTemporaryFile() as report:
        target = f"{REPOSITORY}[{','.join(extras)}]"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", report.name, target, *FOR_OLD_PYTHON], check=True)
        found = json.loads(Path(report.name).read_text())["install"]
    return {canonicalize_name(item["metadata"]["name"]): item["metadata"] for item in found}


def reachable(packages: dict[str, dict[str, Any]], extras: tuple[str, ...]) -> set[str]:
    """Names that kvchaos with ``extras`` needs when nothing in LEFT_OUT is followed."""
    pending = [("kvchaos", frozenset(extras))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while pending:
        name, wanted = pending.pop()
        if name in LEFT_OUT or (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        for line in packages[name].get("requires_dist", ()):
            requirement = Requirement(line)
            if _applies(requirement, wanted):
                pending.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in seen} - {"kvchaos"}


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    if marker is None:
        return True
    environments = ({"extra": extra, "python_full_version": OLDEST_PYTHON} for extra in ("", *extras))
    return any(marker.evaluate(environment) for environment in environments)


def main() -> None:
    """Resolves all images together, so that they agree on every version, and writes the files."""
    packages = resolve(sorted({extra for extras in IMAGES.values() for extra in extras}))
    needed = {image: reachable(packages, extras) for image, extras in IMAGES.items()}
    shared = needed["lmcache"] & needed["blend"]
    write("sidecar", packages, needed["sidecar"])
    write("torch", packages, shared)
    write("lmcache", packages, needed["lmcache"] - shared)
    write("blend", packages, needed["blend"] - shared)


def write(name: str, packages: dict[str, dict[str, Any]], wanted: set[str]) -> None:
    """Pins ``wanted`` in requirements/``name``.txt, without local versions such as ``+cpu``."""
    pins = [f"{package}=={packages[package]['version'].partition('+')[0]}" for package in sorted(wanted)]
    (OUTPUT / f"{name}.txt").write_text("\n".join(("# Made by lock.py.", *pins, "")))


if __name__ == "__main__":
    main()
