"""What kind of file system a directory is in."""

from __future__ import annotations

import os

_IN_MEMORY = ("tmpfs", "ramfs")


def is_in_memory(directory: str) -> bool:
    """Whether calls in that directory move memory only, and so never wait for a device or a network.

    Raises:
        OSError: the directory cannot be looked at.
    """
    device = os.stat(directory).st_dev
    return _type_of(f"{os.major(device)}:{os.minor(device)}") in _IN_MEMORY


def _type_of(device: str) -> str:
    """Type of the file system on a device, "" when the kernel does not list it (proc(5), mountinfo)."""
    with open("/proc/self/mountinfo") as mounts:
        for mount in mounts:
            fields = mount.split()
            if fields[2] == device:
                return fields[fields.index("-") + 1]
    return ""
