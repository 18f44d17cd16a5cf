"""A daemon of another version: ``python -m tests.harness.other_version DIRECTORY PROTOCOL VERSION``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.harness.scripted_daemon import ScriptedDaemon

SERVING = "serving"

if __name__ == "__main__":
    directory, protocol, version = sys.argv[1:]
    daemon = ScriptedDaemon(
        Path(directory), handoff=False, protocol_version=int(protocol), daemon_version=version
    )
    print(SERVING, flush=True)
    signal.sigwait({signal.SIGTERM})
    daemon.close()
