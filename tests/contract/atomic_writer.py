"""A process to be killed: publishes object after object in one directory, as fast as it can.

usage: atomic_writer.py DIRECTORY unnamed|named
"""

from __future__ import annotations

import itertools
import os
import sys

from kvchaos_sidecar.backends.atomic_files import AtomicFiles
from kvchaos_sidecar.backends.filenames import to_file_name
from tests.contract.steps import content, key

SIZE = 256 * 1024
PIECE = 16 * 1024


def main(directory: str, mode: str) -> None:
    base = os.path.join(directory, "").encode()
    temporary = base + b".kvchaos-tmp"
    os.makedirs(temporary, exist_ok=True)
    files = AtomicFiles(base, temporary, reserve=True)
    files.unnamed = files.unnamed and mode == "unnamed"
    for number in itertools.count():
        name, data = to_file_name(key(number)), content(number, SIZE)
        if name is None:
            raise ValueError(f"key {number} has no file name")
        pending = files.create(SIZE)
        for start in range(0, SIZE, PIECE):
            os.pwrite(pending.descriptor, data[start : start + PIECE], start)
        pending.publish(base + name, SIZE)
        if number == 0:
            print("ready", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
