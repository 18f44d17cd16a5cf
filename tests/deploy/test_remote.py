"""A cache server that shares no volume with the sidecar: bytes go inline by themselves, as status says."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.deploy.compose import REPOSITORY, ComposeSet, run
from tests.deploy.conftest import running

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

REMOTE = REPOSITORY / "deploy/compose/remote"


@pytest.fixture(scope="module")
def remote(images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeSet]:
    """The set of two hosts, with a certificate and a token of its own."""
    secrets = tmp_path_factory.mktemp("secrets")
    run(str(REMOTE / "secrets.sh"), str(secrets))
    environment = {
        "KVCHAOS_SECRETS": str(secrets),
        "KVCHAOS_SIDECAR_IMAGE": "kvchaos-ci/sidecar",
        "KVCHAOS_LMCACHE_IMAGE": "kvchaos-ci/lmcache",
    }
    made = ComposeSet("kvchaos-remote", (REMOTE / "docker-compose.yml",), environment)
    with running(made, "sidecar", "lmcache"):
        yield made


def test_status_says_that_the_bytes_go_inline_and_why(remote: ComposeSet) -> None:
    (session,) = remote.kvchaos("status")["sessions"]
    (adapter,) = json.loads(remote.inside("lmcache", "python3", "-c", _STATUS))["storage_manager"][
        "l2_adapters"
    ]

    assert session["transport"] == "inline"
    assert adapter["transport"] == "inline"
    assert adapter["transport_reason"]


def test_prompts_are_served_whole(remote: ComposeSet) -> None:
    served = [
        json.loads(line)
        for line in remote.compose("run", "--rm", "demo").splitlines()
        if line.startswith("{")
    ]

    assert len(served) >= 4
    assert all(one["hit"] == one["asked"] and one["intact"] for one in served[-4:])


def test_without_the_token_nobody_is_served(remote: ComposeSet) -> None:
    connected, _, cause = remote.inside("lmcache", "python3", "-c", _NO_TOKEN).partition(" ")

    assert connected == "False"
    assert "token" in cause


_STATUS = """
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8080/status").read().decode())
"""

_NO_TOKEN = """
from kvchaos.channel import TlsSettings
from kvchaos.client import L2Client
with L2Client("sidecar:9465", "nobody", tls=TlsSettings(ca_file="/etc/kvchaos-secrets/tls.crt")) as client:
    print(client.wait_connected(5), client.cause)
"""
