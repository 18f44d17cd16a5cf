"""The images' pinned packages are what the project asks for."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[3]
PINNED = REPOSITORY / "deploy/images/requirements"
FILES = {"sidecar": ("sidecar",), "lmcache": ("torch", "lmcache"), "blend": ("torch", "blend")}
EXTRAS = {"sidecar": ("sidecar", "redis"), "lmcache": ("sidecar", "redis", "lmcache"), "blend": ("blend",)}


def pins(image: str) -> dict[str, str]:
    """Version of every package of an image, by name."""
    lines = [line for name in FILES[image] for line in (PINNED / f"{name}.txt").read_text().splitlines()]
    return dict(line.split("==") for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("image", FILES)
def test_every_requirement_of_the_project_is_pinned_to_a_version_that_it_allows(image: str) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"]]
    asked += [line for extra in EXTRAS[image] for line in project["optional-dependencies"][extra]]
    pinned = pins(image)

    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(pinned[requirement.name]), requirement


def test_the_images_agree_on_every_version() -> None:
    for one in FILES:
        for other in FILES:
            first, second = pins(one), pins(other)
            assert {name: first[name] for name in first.keys() & second} == {
                name: second[name] for name in first.keys() & second
            }
