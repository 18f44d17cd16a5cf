"""A client process that stops in the middle, to be killed: ``python -m tests.harness.held_client``."""

from __future__ import annotations

import os
import sys
import time

from tests.harness.wire import INLINE, WireSession, make_keys, pieces_of

OBJECT_BYTES = 64 * 1024
STORED = make_keys(4, b"stored")
UNFINISHED = make_keys(4, b"unfinished")
MARK = "holding"


def main(target: str, transport: str) -> None:
    """Locks and loads STORED, half-writes UNFINISHED, says so, and waits to be killed."""
    session = WireSession(target, "held")
    if transport == "handoff":
        session.connect_handoff()
    session.lookup(STORED)
    if session.handoff is None:
        session.load(STORED, OBJECT_BYTES, 1, INLINE)
        session.prepare(UNFINISHED, OBJECT_BYTES, 2, INLINE)
        session.write(pieces_of(0, bytes(OBJECT_BYTES)), 2)
    else:
        session.handoff.receive_all(session.load(STORED, OBJECT_BYTES, 1).descriptor_count)
        prepared = session.prepare(UNFINISHED, OBJECT_BYTES, 2)
        for descriptor in session.handoff.receive_all(prepared.descriptor_count):
            os.pwrite(descriptor, bytes(OBJECT_BYTES // 2), 0)
    print(MARK, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
