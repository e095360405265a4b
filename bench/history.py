"""The recorded runs, one line each in history.jsonl: `python -m bench.history` compares the last two.

Each line contains the commit, the cores, Python, SQLite and the date of its run, and the figures by name. The
exit status is 1 if a figure is worse by more than a tenth (`--worse 0.1`), and the values of the rounds of
the two runs do not overlap. If a run measured the figure only once, a change of more than a tenth is enough.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.runs import Result

HISTORY = Path(__file__).parent / "history.jsonl"
LESS_IS_BETTER = ("s", "ms", "µs", "MB", "bytes")  # a smaller figure or ratio is better


def machine() -> dict[str, Any]:
    """Return the commit, the date, and the properties of the machine that figures depend on."""
    return {
        "commit": _commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def line_of(about: dict[str, Any], results: list[Result]) -> str:
    """Return the line of a run."""
    figures = {result.name: _figure(result) for result in results if not result.note}
    return json.dumps({**about, "figures": figures}, ensure_ascii=False)


def compare(before: dict[str, Any], after: dict[str, Any], worse: float) -> tuple[list[str], bool]:
    """Return a line for each figure that both runs contain, and whether a figure is a regression."""
    lines, regressed = [], False
    for name, now in after["figures"].items():
        then = before["figures"].get(name)
        if then is None or not then["value"]:
            continue
        change = now["value"] / then["value"] - 1
        is_worse = change > worse if now["less_is_better"] else change < -worse
        apart = now["low"] > then["high"] or now["high"] < then["low"]
        single = now["low"] == now["high"] or then["low"] == then["high"]
        regression = is_worse and (apart or single)
        regressed |= regression
        mark = "  WORSE" if regression else ""
        lines.append(f"{name}: {then['value']:.4g} -> {now['value']:.4g} {now['unit']} ({change:+.0%}){mark}")
    return lines, regressed


def main() -> int:
    """Compare the last two runs; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.history", description="Compare the last two runs.")
    parser.add_argument("--worse", type=float, default=0.1, help="share that counts (default: 0.1)")
    given = parser.parse_args()
    runs = [json.loads(line) for line in HISTORY.read_text().splitlines()] if HISTORY.exists() else []
    if len(runs) < 2:
        print(f"{HISTORY.name} has {len(runs)} of the two runs to compare; make bench adds one")
        return 0
    before, after = runs[-2:]
    for run in (before, after):
        print("{date}  {commit}  {cores} cores, Python {python}, SQLite {sqlite}".format(**run))
    lines, regressed = compare(before, after, given.worse)
    print("\n".join(lines))
    return 1 if regressed else 0


def _figure(result: Result) -> dict[str, Any]:
    less = result.bound == "<=" or (result.bound is None and result.unit_measured in LESS_IS_BETTER)
    kept = {
        name: getattr(result, name) for name in ("value", "unit", "low", "high", "ours", "other", "rounds")
    }
    return {**kept, "less_is_better": less}


def _commit() -> str:
    """Return the commit that is checked out, with a `+` if src/ contains changes that are not committed."""
    git = ["git", "-C", str(HISTORY.parent)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        return "unknown"
    status = [*git, "status", "--porcelain", "--", ":/src"]  # the runs themselves change other files
    changed = subprocess.run(status, capture_output=True, text=True, check=False)
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


if __name__ == "__main__":
    sys.exit(main())
