from pathlib import Path

import grpc
import pytest

from kvchaos.channel import TlsSettings, bearer, check_target, open_channel, status_error
from kvchaos.errors import ConfigError, SidecarError


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_every_status_has_an_error(code: grpc.StatusCode) -> None:
    error = status_error(code, "the reason")
    assert isinstance(error, SidecarError)
    assert str(error) == "the reason"


def test_an_error_without_details_says_what_it_is() -> None:
    assert str(status_error(grpc.StatusCode.DEADLINE_EXCEEDED, "")) == "deadline exceeded"


@pytest.mark.parametrize("target", ["unix:/run/x.sock", "127.0.0.1:1", "cache.example:65535", "[::1]:50051"])
def test_targets_of_both_forms_are_taken(target: str) -> None:
    check_target(target)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("unix:relative.sock", "must be absolute"),
        ("unix:/" + "x" * 107, "longer than 107 bytes"),
        ("", "neither"),
        ("localhost", "neither"),
        ("localhost:0", "neither"),
        ("localhost:65536", "neither"),
        ("http://localhost:1", "neither"),
        ("::1:50051", "neither"),
    ],
)
def test_other_targets_are_refused(target: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_target(target)


def test_an_authorities_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"ca_file: cannot read '/nowhere/ca\.pem'"):
        open_channel("localhost:1", TlsSettings(ca_file="/nowhere/ca.pem"))


def test_a_token_is_a_bearer_token() -> None:
    assert bearer("secret") == (("authorization", "Bearer secret"),)
    assert bearer("") == ()


def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with open_channel("127.0.0.1:1") as channel, pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary("/x/Y")(b"", timeout=10)
    assert "127.0.0.1:1" in raised.value.details()
