"""Measure the time from the start of a process until the server answers, or the dashboard is drawn."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path

from bench.books import make_books
from bench.runs import Result, time_out
from bench.servers import SERVE, ledger
from bench.terminal import Terminal

PATIENCE_S = 30
TITLE = "Accounts"  # the title of the first screen
FIRST_ROW = "Account 99"  # the newest account, which is the first row of the list


def measure(folder: Path, rounds: int) -> list[Result]:
    """Measure the server on a new and an existing file, and the dashboard until its first row."""
    books = asyncio.run(make_books(folder / "ledger.db"))
    config = folder / "config.toml"  # this file does not exist, so the user's own config has no effect
    results = [
        time_out(
            "server ready",
            partial(_serve_until_healthy, books.path),
            rounds=rounds,
            target=0.5,
            label="start until the server is ready",
        ),
        time_out("  on a new file", partial(_serve_new, folder), rounds=rounds),
    ]
    with ledger(books.path) as url:
        dashboard = [sys.executable, "-m", "ledger_tui", "--url", url, "--key", books.key]
        results += [
            time_out(
                "dashboard's first paint",
                partial(_draw, dashboard, config, TITLE),
                rounds=rounds,
                target=0.5,
                label="start until the dashboard is drawn",
            ),
            time_out("  its first rows", partial(_draw, dashboard, config, FIRST_ROW), rounds=rounds),
        ]
    embedded = [sys.executable, "-m", "ledger_tui", "--database", str(folder / "embedded.db")]
    results.append(
        time_out("  with a server of its own", partial(_draw, embedded, config, TITLE), rounds=rounds)
    )
    return results


def _serve_until_healthy(database: Path) -> float:
    """Return the seconds from the server's start until it answers /api/health."""
    started = time.perf_counter()
    process = subprocess.Popen([*SERVE, str(database)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("Listening on ").strip()
        with urllib.request.urlopen(f"{url}/api/health", timeout=PATIENCE_S) as answer:
            assert answer.status == 200
        return time.perf_counter() - started
    finally:
        process.kill()
        process.wait()


def _serve_new(folder: Path) -> float:
    database = folder / f"new {time.time_ns()}.db"
    return _serve_until_healthy(database)


def _draw(command: list[str], config: Path, text: str) -> float:
    """Return the seconds until the command shows this text in a terminal of 120×40."""
    with Terminal(command, 120, 40, {"LEDGER_TUI_CONFIG": str(config)}) as terminal:
        return terminal.until(text) - terminal.started
