"""The dashboard in a real terminal: its start, its answers to keys, its changes of screen, and its memory.

The first measure shows 5,000,000 transactions of a server that answers after 40 ms. The second measure shows
the dashboard's own server, which takes 300 requests a second from another client at the same time.
"""

from __future__ import annotations

import asyncio
import math
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.books import make_books
from bench.runs import Result, say
from bench.terminal import Terminal

SIZES = ((80, 24), (120, 40), (250, 70))
PRESSES = 150
SCREENS = 30
REPEAT_SECONDS = 1 / 30  # between two presses of a key that is held down
LOAD_PER_SECOND = 300
KEY = "sk_test_0123456789abcdefghijklmnopqrstuv"
ACCOUNTS, TRANSACTIONS = "balance  cur", "amount  cur"  # the headings by which to recognize a list
DOWN, PAGE_DOWN, PAGE_UP = "\x1b[B", "\x1b[6~", "\x1b[5~"

SHOWN = "5,000,000 rows, 120×40"  # the size whose result gets a label, so that the table of figures shows it
FIRST_PAINT_S, SCREEN_MS, MEMORY_MB = 0.3, 30.0, 100.0
KEY_P95_MS = {(80, 24): 15.0, (120, 40): 15.0, (250, 70): 25.0}


def measure(folder: Path, rounds: int) -> list[Result]:
    """Measure the claims about the dashboard, at three sizes of the terminal."""
    return _far_away(folder, rounds) + _beside_load(folder)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ledger_tui", *arguments]


def _environment(folder: Path) -> dict[str, str]:
    return {"LEDGER_API_KEY": KEY, "LEDGER_TUI_CONFIG": str(folder / "config.toml")}


# ---------------------------------------------------------------------- 5,000,000 transactions, 40 ms away


def _far_away(folder: Path, rounds: int) -> list[Result]:
    results: list[Result] = []
    with _started("bench.endless") as url:
        for columns, rows in SIZES:
            size = f"{columns}×{rows}"
            environment = _environment(folder)
            paints: list[float] = []
            for _ in range(rounds):
                with Terminal(_command("--url", url), columns, rows, environment) as terminal:
                    paints.append(terminal.until("Accounts") - terminal.started)
            results.append(_result(f"first paint, {size}", paints, "s", FIRST_PAINT_S, statistics.median))
            with Terminal(_command("--url", url), columns, rows, environment) as terminal:
                terminal.until("Account 50000")
                results += _scrolled(terminal, f"5,000,000 rows, {size}", KEY_P95_MS[columns, rows])
                results.append(_screens_changed(terminal, size))
                memory = terminal.peak_memory_mb()
                results.append(_result(f"peak memory, {size}", [memory], "MB", MEMORY_MB, max))
    return results


def _scrolled(terminal: Terminal, name: str, target_ms: float) -> list[Result]:
    terminal.press("2")
    terminal.until(TRANSACTIONS)
    terminal.settle()
    results = []
    for how, key in (("row by row", DOWN), ("page by page", PAGE_DOWN), ("and back", PAGE_UP)):
        taken = _held(terminal, key)
        label = f"from a key to the screen, p95, {name}" if how == "row by row" and name == SHOWN else ""
        results.append(_result(f"key to first byte p95, {how}, {name}", taken, "ms", target_ms, p95, label))
    return results


def _held(terminal: Terminal, key: str) -> list[float]:
    """Return the milliseconds that the dashboard takes to answer each press of a key that is held down.

    The presses follow each other at the keyboard's rate, even if the dashboard is late.
    """
    taken = []
    for _ in range(PRESSES):
        next_at = time.perf_counter() + REPEAT_SECONDS
        taken.append(terminal.key_to_first_byte_ms(key))
        while (left := next_at - time.perf_counter()) > 0:
            terminal.read(left)
        terminal.forget()
    return taken


def _screens_changed(terminal: Terminal, name: str) -> Result:
    """Measure the time from the key until the dashboard shows the rows of the other screen."""
    taken = []
    for number in range(-2, SCREENS):  # the first two changes create the screens
        key, sign = (("1", ACCOUNTS), ("2", TRANSACTIONS))[number % 2]
        terminal.settle(0.1)
        pressed = terminal.press(key)
        terminal.forget()
        stood = terminal.until(sign)
        if number >= 0:
            taken.append((stood - pressed) * 1000)
    return _result(f"change of screen, p95, {name}", taken, "ms", SCREEN_MS, p95)


# ---------------------------------------------------------------------- beside a loaded server of its own


def _beside_load(folder: Path) -> list[Result]:
    books = asyncio.run(make_books(folder / "ledger.db"))
    command = _command("--database", str(books.path))
    name = f"its server under {LOAD_PER_SECOND} requests/s"
    with Terminal(command, 120, 40, _environment(folder)) as terminal:
        terminal.until("127.0.0.1:")
        terminal.settle()
        found = re.search(rb"127\.0\.0\.1:\d+", terminal.seen)
        if found is None:
            raise RuntimeError("the dashboard does not say where its server is")
        # The load posts to the project that the dashboard shows, so that rows arrive while the list scrolls.
        url = f"http://{found.group().decode()}"
        with _loaded(url, books.key, books.accounts[0]) as end:
            results = [*_scrolled(terminal, name, KEY_P95_MS[120, 40]), _screens_changed(terminal, name)]
            rate = end()
    results.append(_result("requests/s its server took meanwhile", [rate], "/s", None, max))
    return results


@contextmanager
def _loaded(url: str, key: str, account: str) -> Iterator[Callable[[], float]]:
    """Run another client at a steady rate; yield a function that ends it and returns its rate."""
    command = [sys.executable, "-m", "bench.pace", url, key, account, str(LOAD_PER_SECOND)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def end() -> float:
            told, _ = process.communicate()
            return float(told)

        try:
            yield end
        finally:
            process.kill()


# ---------------------------------------------------------------------- helpers


@contextmanager
def _started(module: str, *arguments: str) -> Iterator[str]:
    """Yield the URL of a server, which runs in another process until the block ends."""
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().removeprefix("Listening on ").strip()
    finally:
        process.kill()
        process.wait()


def p95(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(len(values) * 0.95) - 1]


def _result(
    name: str,
    values: Sequence[float],
    unit: str,
    target: float | None,
    reduce: Callable[[Sequence[float]], float],
    label: str = "",
) -> Result:
    value = reduce(values)
    say(f"  {name}: {value:.3f} {unit} (median {statistics.median(values):.3f}, highest {max(values):.3f})")
    return Result(
        name=name,
        value=value,
        unit=unit,
        ours=value,
        other=None,
        unit_measured=unit,
        bound=None if target is None else "<=",
        target=target,
        low=min(values),
        high=max(values),
        rounds=len(values),
        label=label,
    )
