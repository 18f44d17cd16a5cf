import pytest

from kvchaos_sidecar.config.addresses import TcpAddress, UnixAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address", "local"),
    [
        ("unix:/run/a.sock", UnixAddress("/run/a.sock"), True),
        ("unix:///run/a.sock", UnixAddress("/run/a.sock"), True),
        ("127.0.0.1:80", TcpAddress("127.0.0.1", 80), True),
        ("127.9.9.9:80", TcpAddress("127.9.9.9", 80), True),
        ("localhost:0", TcpAddress("localhost", 0), True),
        ("[::1]:80", TcpAddress("::1", 80), True),
        ("0.0.0.0:80", TcpAddress("0.0.0.0", 80), False),
        ("[::]:80", TcpAddress("::", 80), False),
        ("10.0.0.1:80", TcpAddress("10.0.0.1", 80), False),
        ("cache.example:80", TcpAddress("cache.example", 80), False),
        ("localhost.example:80", TcpAddress("localhost.example", 80), False),
    ],
)
def test_addresses_are_read_and_known_to_be_local_or_not(
    text: str, address: UnixAddress | TcpAddress, local: bool
) -> None:
    assert parse_address(text) == address
    assert address.is_local is local
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("unix:run/a.sock", "needs an absolute path"),
        ("unix:", "needs an absolute path"),
        ("unix:/a\0b", "needs an absolute path"),
        ("/run/a.sock", "is not an address"),
        ("127.0.0.1", "is not an address"),
        (":80", "is not an address"),
        ("host:", "is not an address"),
        ("host:http", "is not an address"),
        ("host:-1", "is not an address"),
        ("host:²", "is not an address"),
        ("", "is not an address"),
        ("::1:80", "write an IPv6 address in brackets"),
        ("host:65536", "has port 65536; the highest is 65535"),
    ],
)
def test_anything_else_is_refused_with_the_fix(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_address(text)


def test_a_socket_path_may_have_107_bytes_and_no_more() -> None:
    parse_address("unix:/" + "x" * 106)
    with pytest.raises(ValueError, match="has 108 bytes; choose one of at most 107"):
        parse_address("unix:/" + "é" * 53 + "x")
