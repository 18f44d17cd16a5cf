"""Writes dashboards/*.json. ``--check`` writes nothing and exits 1 when a file is not what it would write.

python deploy/grafana/generate.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from blend import blend
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from overview import overview
from rules import rules

OUTPUT = Path(__file__).parent / "dashboards"
DASHBOARDS = (overview, rules, blend)


def rendered() -> dict[Path, str]:
    """The text of every dashboard, by file."""
    built = [make().build() for make in DASHBOARDS]
    return {
        OUTPUT / f"{dashboard.uid}.json": json.dumps(dashboard, cls=JSONEncoder, indent=2, sort_keys=True)
        + "\n"
        for dashboard in built
    }


def main() -> int:
    """Writes or checks. Returns the exit code."""
    texts = rendered()
    stale = sorted(path.name for path, text in texts.items() if not path.exists() or path.read_text() != text)
    stale += sorted(path.name for path in OUTPUT.glob("*.json") if path not in texts)
    if "--check" in sys.argv[1:]:
        if stale:
            print(f"not fresh: {', '.join(stale)}; run python deploy/grafana/generate.py", file=sys.stderr)
        return 1 if stale else 0
    for path, text in texts.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
