"""What a run ran on, so that its numbers can be judged."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PACKAGES = ("kvchaos", "lmcache", "torch", "grpcio", "protobuf", "redis", "pydantic")
_PROGRAMS = {"redis-server": "--version", "haproxy": "-v", "nginx": "-v"}
_PROCESS_CPU_CLOCK = 2


def facts(command: str) -> dict[str, Any]:
    """Machine, versions, command and load at this moment."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "command": command,
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_gib": round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "programs": {name: found for name, flag in _PROGRAMS.items() if (found := _program(name, flag))},
        "revision": _revision(),
        "load_before": load(),
    }


def load() -> float:
    """Processes that ran or wanted to, on average over the last minute."""
    return os.getloadavg()[0]


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, user and system (clock_getcpuclockid(3), to the nanosecond)."""
    return time.clock_gettime((~pid << 3) | _PROCESS_CPU_CLOCK)


def own_bytes(pid: int) -> int:
    """Memory of a process that is resident now, without what it shares through files."""
    return 1024 * int(_field(f"/proc/{pid}/status", "RssAnon").split()[0])


def resident_bytes(pid: int) -> int:
    """All memory of a process that is resident now."""
    return 1024 * int(_field(f"/proc/{pid}/status", "VmRSS").split()[0])


def peak_resident_bytes(pid: int) -> int:
    """The most that was resident since :func:`reset_peak`."""
    return 1024 * int(_field(f"/proc/{pid}/status", "VmHWM").split()[0])


def reset_peak(pid: int) -> None:
    """Starts :func:`peak_resident_bytes` anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _field(path: str, name: str) -> str:
    match = re.search(rf"^{name}\s*:\s*(.*)$", Path(path).read_text(), re.MULTILINE)
    return match[1] if match else "unknown"


def _program(name: str, flag: str) -> str:
    try:
        output = subprocess.run([name, flag], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    match = re.search(r"\d+\.\d+(\.\d+)?", output.stdout + output.stderr)
    return match[0] if match else "unknown"


def _revision() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    return found.stdout.strip() or "unknown"


def command_line() -> str:
    """The command as a person would type it."""
    return " ".join(["python -m tests.bench", *sys.argv[1:]])
