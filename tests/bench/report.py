"""From kept results to docs/benchmarks.md, with a picture for each part that has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench import blend_page, plots
from tests.bench.parts import adapters, blend, decisions, drops, inline, proxies, scale
from tests.bench.results import Results, Row
from tests.bench.targets import TARGETS, Target

QUIET_LOAD = 1.0
"""A machine with a higher load than this before a run was busy with something else."""

_UNSEEN_S = 2e-6
"""A batch that is judged in less time than this was not walked through."""

_INTRODUCTION = """\
# Benchmarks

Written by `make bench`; every number comes from the run that its section names. `make bench-short` takes
about five minutes and writes its page beside its results in `.cache/bench/short`, `make bench-NAME` runs
one part ({parts}).

All sides of a case are measured in turn (A B C A B C ...), one round each, by the runner of
`lmcache bench l2`; shown are medians and ratios of medians. A ratio says how many times as fast the sidecar
was: 1.0 is equal, 2.0 is half the time. Stores are directories in memory
(tmpfs) and a local Redis that keeps nothing on disk, so that nothing but the software is measured. What was
found, and why a number is what it is, is in [performance.md](performance.md).
"""

Cells = Sequence[str]


def write(runs: Mapping[str, Results], page: Path) -> None:
    """Writes the page and its pictures, from whatever parts there are."""
    sections = [_INTRODUCTION.format(parts=", ".join(f"`{name}`" for name in _SECTIONS)), _targets(runs)]
    pictures = page.parent / "benchmarks"
    pictures.mkdir(parents=True, exist_ok=True)
    for name, (title, describe) in _SECTIONS.items():
        if name in runs:
            run = runs[name]
            picture = plots.draw(run, pictures / f"{name}.svg")
            shown = [f"![{title}](benchmarks/{name}.svg)\n"] if picture else []
            sections.append("\n".join([f"## {title}\n", _facts(run), *shown, *describe(run)]))
    page.write_text("\n".join(sections))


def target_table(runs: Mapping[str, Results]) -> Sequence[Cells]:
    """What was to be reached and what was, for the terminal and the page."""
    rows = []
    for target in TARGETS:
        run = runs.get(target.part)
        worst = target.worst(run) if run is not None else None
        best = target.best(run) if run is not None else None
        if worst is None or best is None:
            rows.append((target.what, _bound(target), "not measured", "", ""))
        else:
            verdict = "yes" if target.holds(worst) else ("in part" if target.holds(best) else "no")
            rows.append((target.what, _bound(target), _show(worst), _show(best), verdict))
    return rows


def markdown(head: Cells, rows: Iterable[Cells]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _targets(runs: Mapping[str, Results]) -> str:
    head = ("what", "target", "worst case", "best case", "reached")
    return "## Targets\n\n" + markdown(head, target_table(runs))


def _bound(target: Target) -> str:
    direction = "at most" if target.at_most else "at least"
    return f"{direction} {_show(target.bound)} {target.unit}"


def _show(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.2f}"


def _facts(run: Results) -> str:
    facts = run.facts
    versions = ", ".join(
        f"{name} {version}" for name, version in {**facts["packages"], **facts["programs"]}.items()
    )
    busy = facts["load_before"] > QUIET_LOAD
    warning = " **The machine was busy with other work.**" if busy else ""
    loads = f"Load before {facts['load_before']:.2f}, after {facts.get('load_after', 0):.2f}.{warning}"
    return (
        f"`{facts['command']}`, {facts['date']}, revision {facts['revision']}. {facts['cores']} cores "
        f"({facts['cpu']}), {facts['memory_gib']} GiB, Linux {facts['kernel']}, Python {facts['python']}; "
        f"{versions}. {loads}\n"
    )


def size(number: int) -> str:
    """Bytes for a person."""
    mib = number / 2**20
    return f"{mib:.0f} MiB" if mib >= 1 else f"{number / 2**10:.0f} KiB"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}" if seconds < 0.1 else f"{seconds * 1000:.0f}"


def _describe_grid(baseline: str, group: str) -> Callable[[Results], list[str]]:
    def describe(run: Results) -> list[str]:
        rows = [row for row in run.rows if row.case["group"] == group]
        if not rows:
            return []
        sides = list(dict.fromkeys(row.side for row in rows))
        ours = [side for side in sides if side.startswith("sidecar")]
        head = (
            "operation",
            "object",
            "keys",
            "in flight",
            *(f"{side}, ms" for side in sides),
            *(f"{side} / {baseline}" for side in ours),
        )
        cases = list(dict.fromkeys(tuple(row.case.items()) for row in rows))
        lines = [_grid_line(run, dict(case), sides, ours, baseline) for case in cases]
        return [f"### {group}\n", markdown(head, lines)]

    return describe


def _grid_line(
    run: Results, case: dict[str, Any], sides: Sequence[str], ours: Sequence[str], baseline: str
) -> Cells:
    times = [run.value(side, "median_s", **case) or 0.0 for side in sides]
    ratios = [run.ratio(side, baseline, **case) or 0.0 for side in ours]
    return (
        case["operation"],
        size(case["size_bytes"]),
        str(case["keys"]),
        str(case["in_flight"]),
        *map(_ms, times),
        *(f"{ratio:.2f}" for ratio in ratios),
    )


def _describe_adapters(run: Results) -> list[str]:
    return [
        *_describe_grid(adapters.FS_NATIVE, "files")(run),
        *_describe_grid(adapters.RESP, "redis")(run),
    ]


def _describe_proxies(run: Results) -> list[str]:
    sides = [proxies.SIDECAR_REDIS, proxies.SIDECAR_HOSTED_RESP, proxies.HAPROXY, proxies.NGINX]
    head = (
        "load of 32 keys",
        f"{proxies.DIRECT}, ms",
        *(f"{side}: ms added" for side in sides),
        *(f"{side}: throughput kept" for side in sides),
    )
    lines = []
    for row in run.rows:
        if row.side == proxies.DIRECT and row.case["operation"] == "load":
            direct = row.values["median_s"]
            times = [run.value(side, "median_s", **row.case) or direct for side in sides]
            added = [f"{(taken - direct) * 1000:+.2f}" for taken in times]
            kept = [f"{direct / taken:.2f}" for taken in times]
            lines.append((size(row.case["size_bytes"]), _ms(direct), *added, *kept))
    return [markdown(head, lines), *_describe_grid(proxies.DIRECT, "proxies")(run)]


def _describe_decisions(run: Results) -> list[str]:
    judged = [row for row in run.rows if row.side == "judge"]
    batches = list(dict.fromkeys(row.case["batch"] for row in judged))
    head = ("", "rules", *(f"{batch:,} keys, µs" for batch in batches), "keys a second, largest batch")
    lines = []
    for kind, rules in dict.fromkeys((row.case["kind"], row.case["rules"]) for row in judged):
        values = [
            run.value("judge", "median_s", kind=kind, rules=rules, batch=batch) or 0 for batch in batches
        ]
        speed = f"{batches[-1] / values[-1]:,.0f}" if values[-1] > _UNSEEN_S else "no key is looked at"
        lines.append((kind, f"{rules:,}", *(f"{value * 1e6:.1f}" for value in values), speed))
    loads = [row for row in run.rows if row.case.get("operation") == "load"]
    through = [(row.side, _ms(row.values["median_s"]), f"{row.values['rounds']:.0f}") for row in loads]
    return [
        markdown(head, lines),
        "A load of 32 keys of 64 KiB through a daemon:\n",
        markdown(("rules", "median, ms", "rounds"), through),
    ]


def _describe_drops(run: Results) -> list[str]:
    head = ("rate", "object", "dropped of 32", f"{drops.SIDECAR}, ms", f"{drops.FAULT_INJECT}, ms", "ratio")
    lines = [
        (
            f"{row.case['rate']:g}",
            size(row.case["size_bytes"]),
            str(row.case["dropped"]),
            _ms(row.values["median_s"]),
            _ms(run.value(drops.FAULT_INJECT, "median_s", **row.case) or 0),
            f"{run.ratio(drops.SIDECAR, drops.FAULT_INJECT, **row.case) or 0:.2f}",
        )
        for row in run.rows
        if row.side == drops.SIDECAR
    ]
    return [markdown(head, lines)]


def _describe_scale(run: Results) -> list[str]:
    by_what: dict[str, list[Row]] = {}
    for row in run.rows:
        by_what.setdefault(row.case["what"], []).append(row)
    parts = []
    for what, (title, head, line) in _SCALE_TABLES.items():
        if what in by_what:
            parts += [f"### {title}\n", markdown(head, [line(row) for row in by_what[what]])]
    return parts


def _sessions_line(row: Row) -> Cells:
    values = row.values
    return (
        str(row.case["sessions"]),
        f"{values['batches_per_s']:,.0f}",
        f"{values['bytes_per_s'] / 1e9:.2f}",
        _ms(values["median_s"]),
        f"{values['daemon_cpu_s_per_batch'] * 1000:.3f}",
    )


def _stored_line(row: Row) -> Cells:
    values = row.values
    return (
        f"{row.case['stored']:,}",
        f"{values['start_s']:.2f}",
        _ms(values["lookup_s"]),
        _ms(values["list_page_s"]),
        _ms(values["usage_s"]),
        f"{values['own_bytes'] / 2**20:.1f}",
    )


_SCALE_TABLES: Mapping[str, tuple[str, Cells, Callable[[Row], Cells]]] = {
    "sessions": (
        "Sessions at once, each loading 32 objects of 256 KiB in a loop",
        ("sessions", "batches/s", "GB/s", "median of a batch, ms", "daemon CPU, ms a batch"),
        _sessions_line,
    ),
    "cpu": (
        "CPU of the daemon",
        ("objects", "CPU ms for each GiB loaded"),
        lambda row: (
            f"{row.case['keys']} of {size(row.case['size_bytes'])}",
            f"{row.values['daemon_cpu_s_per_gib'] * 1000:.1f}",
        ),
    ),
    "stored keys": (
        "Keys in the store",
        ("keys", "start, s", "lookup of 32, ms", "page of 500, ms", "usage, ms", "daemon's own memory, MiB"),
        _stored_line,
    ),
    "long run": (
        "As many batches as ten a second make in an hour",
        ("batches", "seconds", "daemon's own memory, MiB"),
        lambda row: (
            f"{row.case['batches']:,}",
            f"{row.values['seconds']:.0f}",
            f"{row.values['own_bytes'] / 2**20:.2f}",
        ),
    ),
}


def _describe_inline(run: Results) -> list[str]:
    head = ("objects", "transport", "ms", "GB/s", "daemon's peak memory above rest, MiB")
    lines = [
        (
            f"{row.case['keys']} of {size(row.case['size_bytes'])}",
            row.side,
            _ms(row.values["median_s"]),
            f"{row.case['keys'] * row.case['size_bytes'] / row.values['median_s'] / 1e9:.2f}",
            f"{row.values['grown_bytes'] / 2**20:.1f}",
        )
        for row in run.rows
    ]
    return [markdown(head, lines)]


_SECTIONS: Mapping[str, tuple[str, Callable[[Results], list[str]]]] = {
    "adapters": (adapters.TITLE, _describe_adapters),
    "proxies": (proxies.TITLE, _describe_proxies),
    "decisions": (decisions.TITLE, _describe_decisions),
    "drops": (drops.TITLE, _describe_drops),
    "scale": (scale.TITLE, _describe_scale),
    "inline": (inline.TITLE, _describe_inline),
    "blend": (blend.TITLE, lambda run: blend_page.describe(run, markdown)),
}
