"""`python -m bench [NAME…] [--rounds N]`: progress and a table on stderr, the same as JSON on stdout."""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench import dashboard, pages, postings, posts, starts, webhooks
from bench.runs import Result, say, table

MEASURES: dict[str, Callable[[Path, int], list[Result]]] = {
    "dashboard": dashboard.measure,
    "engine": postings.measure,
    "http": posts.measure,
    "pages": pages.measure,
    "starts": starts.measure,
    "webhooks": webhooks.measure,
}


def main() -> int:
    """Run the benchmarks; returns the exit status, 1 when a claim is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what the README claims.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}; all by default")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each pair (default: 7)")
    given = parser.parse_args()
    unknown = set(given.names) - set(MEASURES)
    if unknown:
        parser.error(f"there is no measure {', '.join(sorted(unknown))}")
    results: list[Result] = []
    for name in given.names or MEASURES:
        say(name)
        with tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
            results += MEASURES[name](Path(folder), given.rounds)
    say("\n" + table(results) + "\n")
    machine = {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "machine": platform.machine(),
    }
    json.dump({**machine, "results": [asdict(result) for result in results]}, sys.stdout, indent=2)
    print()
    return 0 if all(result.holds for result in results) else 1


sys.exit(main())
