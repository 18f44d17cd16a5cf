"""Says hello on a handoff socket as another user: ``python -m tests.harness.other_user``."""

from __future__ import annotations

import os
import sys

from tests.harness.wire import HandoffSocket


def main(uid: str, path: str, session_id: str, token_hex: str) -> None:
    """Becomes ``uid``, says hello and prints the refusal."""
    os.setgroups([])
    os.setgid(int(uid))
    os.setuid(int(uid))
    print(HandoffSocket(path).hello(session_id, bytes.fromhex(token_hex)).refusal)


if __name__ == "__main__":
    main(*sys.argv[1:])
