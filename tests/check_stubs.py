"""Fails when the committed stubs are not what protoc makes of proto/."""

from __future__ import annotations

import filecmp
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
COMMITTED = ROOT / "client/kvchaos/v1"
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"


def main() -> int:
    """0 when the stubs are fresh, else 1 after naming those that are not."""
    protos = sorted(str(path) for path in (ROOT / "proto/kvchaos/v1").glob("*.proto"))
    with tempfile.TemporaryDirectory() as fresh:
        outputs = [f"--{kind}_out={fresh}" for kind in ("python", "pyi", "grpc_python")]
        if protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"-I{WELL_KNOWN}", *outputs, *protos]):
            return 1
        made = {path.name for path in (Path(fresh) / "kvchaos/v1").iterdir()}
        kept = {path.name for path in COMMITTED.glob("*_pb2*")}
        _, differ, missing = filecmp.cmpfiles(
            Path(fresh) / "kvchaos/v1", COMMITTED, sorted(made | kept), shallow=False
        )
    stale = sorted({*differ, *missing})
    if stale:
        print(f"stale stubs: {', '.join(stale)}. Run 'make proto' and commit the result.")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
