from pathlib import Path

from kvchaos_sidecar.config.effective import RuntimeValue, Source, effective_fields
from kvchaos_sidecar.config.load import compose

FILE = b"""
version: 1
backend: {type: redis, password: hunter2}
fault_inject: {rate: 0.5, seed: 3}
limits: {lock_ttl: 90s}
"""


def fields_of(arguments: dict, runtime: dict[str, RuntimeValue]) -> dict[str, tuple[object, Source]]:
    configuration = compose(Path("c.yaml"), FILE, arguments)
    return {field.path: (field.value, field.source) for field in effective_fields(configuration, runtime)}


def test_each_layer_wins_over_the_one_before() -> None:
    fields = fields_of({"fault_inject": {"seed": 4}}, {"gap_indices": RuntimeValue((1, 2), 5.0)})
    assert fields["fault_inject.gap_tail_ratios"] == ([], Source.DEFAULT)
    assert fields["fault_inject.rate"] == (0.5, Source.FILE)
    assert fields["fault_inject.seed"] == (4, Source.ARGUMENT)
    assert fields["fault_inject.gap_indices"] == ((1, 2), Source.RUNTIME)


def test_only_runtime_values_end() -> None:
    configuration = compose(Path("c.yaml"), FILE, {})
    runtime = {"seed": RuntimeValue(9, 5.0)}
    ends = {field.path: field.ends_at for field in effective_fields(configuration, runtime)}
    assert ends.pop("fault_inject.seed") == 5.0
    assert set(ends.values()) == {float("inf")}


def test_values_are_written_as_in_the_file() -> None:
    fields = fields_of({}, {})
    assert fields["limits.lock_ttl"] == ("1m30s", Source.FILE)
    assert fields["listen.cache"] == ("unix:/run/kvchaos/cache.sock", Source.DEFAULT)
    assert fields["fault_inject.poison"] == ("nan", Source.DEFAULT)


def test_secrets_are_masked_wherever_they_are() -> None:
    assert fields_of({}, {})["backend.password"] == ("***", Source.FILE)
    hosted = {
        "backend": {
            "type": "lmcache",
            "inner": {
                "type": "s3",
                "aws_secret_access_key": "hunter2",
                "nested": {"api_token": "hunter2"},
                "nodes": [{"host": "a", "password": "hunter2"}, "redis://user:hunter2@b:6379/0"],
            },
        }
    }
    fields = fields_of(hosted, {})
    assert fields["backend.inner.aws_secret_access_key"] == ("***", Source.ARGUMENT)
    assert fields["backend.inner.nodes"][0] == [{"host": "a", "password": "***"}, "redis://***@b:6379/0"]
    assert "hunter2" not in repr(fields)
