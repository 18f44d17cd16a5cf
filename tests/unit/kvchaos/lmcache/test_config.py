from pathlib import Path
from typing import Any

import pytest
from lmcache.v1.distributed.l2_adapters.config import L2AdapterConfigBase

from kvchaos.channel import TlsSettings
from kvchaos.errors import ConfigError
from kvchaos.lmcache.config import KVChaosL2AdapterConfig

TARGET = {"target": "unix:/run/kvchaos/cache.sock"}


def test_a_target_is_all_it_needs() -> None:
    config = KVChaosL2AdapterConfig.from_dict(TARGET)
    assert config == KVChaosL2AdapterConfig(target=TARGET["target"])
    assert isinstance(config, L2AdapterConfigBase)
    assert config.max_capacity_bytes == 0
    assert config.tls_settings is None
    assert config.read_token() == ""


def test_every_setting_is_taken(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(" secret\n")
    config = KVChaosL2AdapterConfig.from_dict(
        {
            "target": "cache.example:443",
            "timeout_s": 3,
            "max_capacity_gb": 1.5,
            "handoff": False,
            "workers": 8,
            "token_file": str(token),
            "tls": True,
            "ca_file": "/ca.pem",
            "server_name": "cache",
        }
    )
    assert config.max_capacity_bytes == 3 * 2**29
    assert config.tls_settings == TlsSettings("/ca.pem", "cache")
    assert config.read_token() == "secret"
    assert (config.timeout_s, config.handoff, config.workers) == (3, False, 8)


def test_every_setting_is_explained() -> None:
    for name in KVChaosL2AdapterConfig.__dataclass_fields__:
        assert f"\n- {name} (" in KVChaosL2AdapterConfig.help()


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("target", 5, "expected a string, got 5"),
        ("target", "unix:x", "must be absolute"),
        ("timeout_s", 0, r"0 is not in \(0, 600\]"),
        ("timeout_s", -1.0, r"-1.0 is not in \(0, 600\]"),
        ("timeout_s", 601, r"601 is not in \(0, 600\]"),
        ("timeout_s", float("nan"), r"nan is not in \(0, 600\]"),
        ("timeout_s", float("inf"), r"inf is not in \(0, 600\]"),
        ("timeout_s", True, "expected a number, got True"),
        ("timeout_s", "5", "expected a number, got '5'"),
        ("timeout_s", None, "expected a number, got None"),
        ("max_capacity_gb", -0.1, r"-0.1 is not in \[0, "),
        ("handoff", 1, "expected true or false, got 1"),
        ("handoff", "yes", "expected true or false, got 'yes'"),
        ("workers", 0, r"0 is not in \[1, 64\]"),
        ("workers", 65, r"65 is not in \[1, 64\]"),
        ("workers", 2.0, "expected an integer, got 2.0"),
        ("workers", True, "expected an integer, got True"),
        ("token_file", 3, "expected a string, got 3"),
        ("tls", "true", "expected true or false, got 'true'"),
        ("Target", "x", "unknown; the fields are target, timeout_s"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"adapter_params.{name}: .*{problem}"):
        KVChaosL2AdapterConfig.from_dict({**TARGET, name: value})


@pytest.mark.parametrize("name", ["ca_file", "server_name"])
def test_tls_details_need_tls(name: str) -> None:
    with pytest.raises(ConfigError, match=r"adapter_params\.tls: must be true"):
        KVChaosL2AdapterConfig.from_dict({**TARGET, name: "x"})


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        KVChaosL2AdapterConfig.from_dict({"timeout": 1, "workers": 0, "handoff": None})
    assert len(raised.value.problems) == 4


def test_a_token_file_that_is_empty_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("\n")
    config = KVChaosL2AdapterConfig.from_dict({**TARGET, "token_file": str(token)})
    with pytest.raises(ConfigError, match="is empty"):
        config.read_token()
