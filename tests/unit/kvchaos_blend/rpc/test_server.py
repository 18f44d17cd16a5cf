"""Where the worker may listen."""

from __future__ import annotations

import pytest

from kvchaos.errors import ConfigError
from kvchaos_blend.rpc.server import check_address


@pytest.mark.parametrize("address", ["unix:/tmp/x.sock", "127.0.0.1:9470", "[::1]:1", "localhost:80"])
def test_this_host_may_connect(address: str) -> None:
    assert check_address(address) == address


@pytest.mark.parametrize("address", ["0.0.0.0:9470", "10.0.0.1:9470", "[::]:9470", "example.org:1"])
def test_others_may_not(address: str) -> None:
    with pytest.raises(ConfigError, match="use a Unix socket or 127"):
        check_address(address)


@pytest.mark.parametrize("address", ["", "unix:", "127.0.0.1", "127.0.0.1:http"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="expected unix:PATH or HOST:PORT"):
        check_address(address)
