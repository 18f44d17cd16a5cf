"""The generated reference is complete."""

from __future__ import annotations

import re

import pytest
from docs.generate.commands import command_reference
from docs.generate.configuration import configuration_reference
from docs.generate.metrics import metrics_reference
from docs.generate.plugin import plugin_reference
from docs.generate.protocol import read_protocol
from prometheus_client.parser import text_string_to_metric_families
from tests.harness.sidecar import SidecarProcess

from kvchaos.cli.main import COMMANDS
from kvchaos.lmcache.config import KVChaosL2AdapterConfig
from kvchaos.v1 import cache_pb2, common_pb2, control_pb2, handoff_pb2
from kvchaos_sidecar.config.effective import effective_fields
from kvchaos_sidecar.config.load import load

FIRST_CELL = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
SUFFIXES = {"counter": "_total", "info": "_info"}


@pytest.fixture(scope="module")
def exported() -> set[str]:
    """Names of the metrics of a running daemon."""
    with SidecarProcess({"type": "memory", "capacity_bytes": 1 << 20}) as sidecar:
        families = list(text_string_to_metric_families(sidecar.metrics().text))
    return {
        family.name + SUFFIXES.get(family.type, "")
        for family in families
        if not family.name.endswith("_created")
    }


def test_the_metrics_page_has_what_a_running_daemon_exports(exported: set[str]) -> None:
    assert set(FIRST_CELL.findall(metrics_reference())) == exported


def test_every_field_of_the_configuration_is_described() -> None:
    page = set(FIRST_CELL.findall(configuration_reference()))
    arguments = {"version": 1, "backend": {"type": "fs", "base_path": "/l2"}}
    fields = {field.path.rpartition(".")[2] for field in effective_fields(load(None, arguments), {})}
    assert fields <= page


def test_every_command_has_a_section() -> None:
    page = command_reference()
    for command in COMMANDS:
        assert f"### `kvchaos {command.NAME}`" in page
    assert "## `kvchaos-sidecar`" in page


def test_every_setting_of_the_plugin_is_described() -> None:
    assert FIRST_CELL.findall(plugin_reference()) == list(KVChaosL2AdapterConfig.__dataclass_fields__)


@pytest.mark.parametrize("module", [cache_pb2, common_pb2, control_pb2, handoff_pb2])
def test_every_message_and_service_has_a_section_with_its_fields(module: object) -> None:
    page = read_protocol().reference(lambda name: True)
    file = module.DESCRIPTOR  # type: ignore[attr-defined]
    for name in (*file.services_by_name, *file.message_types_by_name, *file.enum_types_by_name):
        assert f"### {name}\n" in page
    for message in file.message_types_by_name.values():
        section = page.split(f"### {message.name}\n", 1)[1].split("\n(kvchaos.v1", 1)[0]
        assert FIRST_CELL.findall(section) == [field.name for field in message.fields]


def test_comments_of_the_proto_files_are_taken_over() -> None:
    page = read_protocol().reference(lambda name: name == "control")
    assert "Stops all injection at once until Resume. Idempotent; outlives reloads." in page
