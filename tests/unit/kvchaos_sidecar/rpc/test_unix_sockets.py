import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvchaos_sidecar.errors import ListenError
from kvchaos_sidecar.rpc.unix_sockets import claim_socket_path, socket_permissions


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kvc-", dir="/tmp") as path:
        yield Path(path)


def test_a_missing_directory_is_made_for_owner_and_group(directory: Path) -> None:
    claim_socket_path(str(directory / "new" / "x.sock"))
    assert stat.S_IMODE((directory / "new").stat().st_mode) == 0o750


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET])
def test_the_socket_of_a_dead_process_is_removed_and_that_of_a_live_one_is_not(
    directory: Path, kind: socket.SocketKind
) -> None:
    path = directory / "x.sock"
    with socket.socket(socket.AF_UNIX, kind) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(ListenError, match="in use by another process"):
            claim_socket_path(str(path))
        assert path.exists()
    claim_socket_path(str(path))
    assert not path.exists()


def test_a_file_is_left_alone(directory: Path) -> None:
    path = directory / "precious"
    path.write_text("data")
    with pytest.raises(ListenError, match="is not a socket"):
        claim_socket_path(str(path))
    assert path.read_text() == "data"


def test_a_dangling_symlink_is_left_alone(directory: Path) -> None:
    path = directory / "link"
    path.symlink_to(directory / "nowhere")
    with pytest.raises(ListenError, match="is not a socket"):
        claim_socket_path(str(path))
    assert path.is_symlink()


def test_a_path_that_is_too_long_is_refused(directory: Path) -> None:
    fits = directory / ("x" * (107 - len(os.fsencode(directory)) - 1))
    claim_socket_path(str(fits))
    with pytest.raises(ListenError, match="has 108 bytes; choose one of at most 107"):
        claim_socket_path(f"{fits}x")


def test_a_directory_that_cannot_be_made_is_named(directory: Path) -> None:
    (directory / "file").write_text("")
    with pytest.raises(ListenError, match=f"cannot make the directory {directory}/file"):
        claim_socket_path(str(directory / "file" / "x.sock"))


def test_sockets_are_for_owner_and_group(directory: Path) -> None:
    before = os.umask(0o022)
    os.umask(before)
    with socket.socket(socket.AF_UNIX) as listener, socket_permissions():
        listener.bind(str(directory / "x.sock"))
    assert stat.S_IMODE((directory / "x.sock").stat().st_mode) == 0o660
    assert os.umask(before) == before
