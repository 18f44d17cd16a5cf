import json
from datetime import timedelta

import pytest
import yaml

from kvchaos_sidecar.config.load import parse_document
from kvchaos_sidecar.config.schema import Document, json_schema
from kvchaos_sidecar.faults.poison import Poison, PoisonKind

BASE = "version: 1\nbackend: {type: fs, base_path: /data}\n"
FULL = """
version: 1
listen:
  cache: unix:/tmp/c.sock
  control: 127.0.0.1:9001
  http: "[::1]:9002"
  handoff: unix:/tmp/h.sock
  tls: {certificate: /c.pem, key: /k.pem}
  token_file: /token
handoff: {allow_uids: [0, 1000]}
backend: {type: redis, host: r, port: 1, username: u, password: p, db: 2, capacity_bytes: 3}
fault_inject: {rate: 1, seed: -1, gap_indices: [2, 0], gap_tail_ratios: [0, 0.5], poison: {byte: 7}}
limits: {lock_ttl: 1h30m, grant_ttl: 300ms, staging_bytes: 1, max_sessions: 1}
"""


@pytest.mark.parametrize(
    ("listen", "path"),
    [
        ("{}", "/run/kvchaos/handoff.sock"),
        ("{cache: 'unix:/tmp/x/c.sock'}", "/tmp/x/handoff.sock"),
        ("{cache: 'unix:/tmp/x/c.sock', handoff: 'unix:/tmp/h.sock'}", "/tmp/h.sock"),
        ("{cache: '127.0.0.1:1'}", None),
        ("{cache: '127.0.0.1:1', handoff: 'unix:/tmp/h.sock'}", "/tmp/h.sock"),
    ],
)
def test_the_handoff_socket_is_beside_the_cache_socket_unless_named(listen: str, path: str | None) -> None:
    assert parse_document(f"{BASE}listen: {listen}").listen.handoff_path == path


@pytest.mark.parametrize(
    ("text", "poison"),
    [
        ("nan", Poison()),
        ("leave", Poison(PoisonKind.LEAVE)),
        ("{byte: 0}", Poison(PoisonKind.BYTE, 0)),
    ],
)
def test_poisons(text: str, poison: Poison) -> None:
    assert parse_document(f"{BASE}fault_inject: {{poison: {text}}}").fault_inject.poison == poison


def test_a_dropped_key_is_poisoned_by_default() -> None:
    assert parse_document(BASE).fault_inject.poison == Poison(PoisonKind.NAN, 0xFF)


def test_durations_are_read() -> None:
    limits = parse_document(FULL).limits
    assert (limits.lock_ttl, limits.grant_ttl) == (timedelta(minutes=90), timedelta(milliseconds=300))


@pytest.mark.parametrize("text", [BASE, FULL])
def test_what_is_written_out_reads_back_as_the_same(text: str) -> None:
    document = parse_document(text)
    written = document.model_dump(mode="json")
    if written["backend"]["type"] == "redis":
        written["backend"]["password"] = "p"
    assert Document.model_validate(json.loads(json.dumps(written))) == document


def test_a_password_is_not_in_any_rendering() -> None:
    document = parse_document("version: 1\nbackend: {type: redis, password: hunter2}")
    assert "hunter2" not in f"{document!r} {document} {document.model_dump_json()}"


def test_a_document_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse_document(BASE).fault_inject.rate = 0.5  # type: ignore[misc]


def described(field: dict, schema: dict) -> dict:
    """A field, or the part that it refers to."""
    return schema["$defs"][field["$ref"].rpartition("/")[2]] if "$ref" in field else field


def test_the_json_schema_describes_every_field_and_its_range() -> None:
    schema = json.loads(json.dumps(json_schema()))
    for name, part in {**schema["$defs"], "Document": schema}.items():
        if "properties" not in part:
            continue
        assert part["additionalProperties"] is False, name
        for field, description in part["properties"].items():
            assert "description" in described(description, schema) or field == "type", f"{name}.{field}"
    rate = schema["$defs"]["FaultInject"]["properties"]["rate"]
    assert (rate["type"], rate["minimum"], rate["maximum"]) == ("number", 0, 1)
    assert schema["required"] == ["version", "backend"]


def test_the_json_schema_writes_defaults_as_a_file_does() -> None:
    schema = json_schema()
    fields = schema["properties"]
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    assert defaults["listen"]["cache"] == "unix:/run/kvchaos/cache.sock"
    assert defaults["limits"]["lock_ttl"] == "10m"
    assert parse_document(BASE + yaml.safe_dump(defaults)) == parse_document(BASE)
