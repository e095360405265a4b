"""`python -m bench [NAME…] [--rounds N] [--record]` runs the benchmarks.

The progress and a table of the results go to stderr, and the results as JSON to stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench import (
    batches,
    dashboard,
    helpers,
    history,
    neighbours,
    pages,
    postings,
    readme,
    reads,
    rivals,
    space,
    starts,
    webhooks,
)
from bench.runs import Result, missing, say, table

MEASURES: dict[str, Callable[[Path, int], list[Result]]] = {
    "rivals": rivals.measure,
    "reads": reads.measure,
    "batches": batches.measure,
    "neighbours": neighbours.measure,
    "webhooks": webhooks.measure,
    "helpers": helpers.measure,
    "engine": postings.measure,
    "space": space.measure,
    "pages": pages.measure,
    "starts": starts.measure,
    "dashboard": dashboard.measure,
}


def main() -> int:
    """Run the benchmarks, and return the exit status: 1 if a claim is missed or a measure fails."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what the README claims.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}; all by default")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side (default: 5)")
    record = "add the run to bench/history.jsonl and, when it measured everything, to the README"
    parser.add_argument("--record", action="store_true", help=record)
    given = parser.parse_args()
    unknown = set(given.names) - set(MEASURES)
    if unknown:
        parser.error(f"there is no measure {', '.join(sorted(unknown))}")
    # An installed program has compiled files. Without compiled files each measured start would include a
    # compilation.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    results: list[Result] = []
    failed = False
    for name in given.names or MEASURES:
        say(name)
        with tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
            try:
                results += MEASURES[name](Path(folder), given.rounds)
            except Exception as error:  # continue, because the other measures took minutes
                say(traceback.format_exc())
                failed = True
                results.append(missing(name, note=f"failed: {error!r:.100}"))
    say("\n" + table(results) + "\n")
    about = history.machine()
    json.dump({**about, "results": [asdict(result) for result in results]}, sys.stdout, indent=2)
    print()
    if given.record:
        with history.HISTORY.open("a", encoding="utf-8") as kept:
            kept.write(history.line_of(about, results) + "\n")
        if not given.names:
            readme.write(about, results)
    return 0 if not failed and all(result.holds for result in results) else 1


sys.exit(main())
