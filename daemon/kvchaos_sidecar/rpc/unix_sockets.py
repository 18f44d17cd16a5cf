"""Paths of Unix sockets: made ready before a server binds them."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from kvchaos_sidecar.config.addresses import MAX_SOCKET_PATH_BYTES
from kvchaos_sidecar.errors import ListenError

_DIRECTORY_MODE = 0o750
_SOCKET_UMASK = 0o117


def claim_socket_path(path: str) -> None:
    """Makes a path free for a new socket: creates its directory, removes the socket of a dead process.

    Raises:
        ListenError: the path is too long, is not a socket, is in use, or cannot be reached.
    """
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH_BYTES:
        raise ListenError(
            f"the socket path {path} has {length} bytes; choose one of at most {MAX_SOCKET_PATH_BYTES}"
        )
    directory = os.path.dirname(path)
    try:
        os.makedirs(directory, _DIRECTORY_MODE, exist_ok=True)
    except OSError as error:
        raise ListenError(f"cannot make the directory {directory}: {error.strerror}") from error
    try:
        if os.path.lexists(path):
            _remove_stale(path)
    except OSError as error:
        raise ListenError(f"cannot use the socket path {path}: {error.strerror}") from error


@contextmanager
def socket_permissions() -> Iterator[None]:
    """Sockets bound inside get mode 0660. The mask is the whole process's: bind, and do nothing else."""
    before = os.umask(_SOCKET_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def _remove_stale(path: str) -> None:
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise ListenError(f"{path} exists and is not a socket; remove it or choose another path")
    if _is_alive(path):
        raise ListenError(f"{path} is in use by another process; end that one or choose another path")
    os.unlink(path)


def _is_alive(path: str) -> bool:
    """Whether a process listens there. A socket of another type answers too, with EPROTOTYPE."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except OSError as error:
            if error.errno in (errno.EPROTOTYPE, errno.EAGAIN):
                return True
            if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
                return False
            raise
    return True
