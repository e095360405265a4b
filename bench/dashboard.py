"""The dashboard in a real terminal: how soon it is there, answers a key and changes its screen, and its size.

On 5,000,000 transactions from a server 40 ms away; then on its own server while that takes 300
requests a second from another client.
"""

from __future__ import annotations

import asyncio
import math
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.books import make_books
from bench.runs import Result, say
from bench.terminal import Terminal

SIZES = ((80, 24), (120, 40), (250, 70))
PRESSES = 150
REPEAT_SECONDS = 1 / 30  # a key that is held down
LOAD_PER_SECOND = 300
KEY = "sk_test_0123456789abcdefghijklmnopqrstuv"
DOWN, PAGE_DOWN, PAGE_UP, UP = "\x1b[B", "\x1b[6~", "\x1b[5~", "\x1b[A"

FIRST_PAINT_S, KEY_P95_MS, SCREEN_MS, MEMORY_MB = 0.4, 20.0, 30.0, 120.0


def measure(folder: Path, rounds: int) -> list[Result]:
    """The claims of the dashboard, each at its worst size."""
    results = _far_away(folder, rounds)
    return results + _beside_load(folder, rounds)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ledger_tui", *arguments]


def _environment(folder: Path, key: str = KEY) -> dict[str, str]:
    return {"LEDGER_API_KEY": key, "XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder)}


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
                results += _scrolled(terminal, f"5,000,000 rows, {size}")
                results += _screens_changed(terminal, size)
                memory = terminal.peak_memory_mb()
                results.append(_result(f"peak memory, {size}", [memory], "MB", MEMORY_MB, max))
    return results


def _scrolled(terminal: Terminal, name: str) -> list[Result]:
    terminal.press("2")
    terminal.until("debit")
    terminal.settle()
    results = []
    for how, key in (("row by row", DOWN), ("page by page", PAGE_DOWN), ("and back", PAGE_UP)):
        taken = _held(terminal, key)
        results.append(_result(f"key to first byte p95, {how}, {name}", taken, "ms", KEY_P95_MS, p95))
    return results


def _held(terminal: Terminal, key: str) -> list[float]:
    """The times of a key held down: pressed at its pace whether or not the last one was answered in time."""
    taken = []
    for _ in range(PRESSES):
        next_at = time.perf_counter() + REPEAT_SECONDS
        taken.append(terminal.key_to_first_byte_ms(key))
        while (left := next_at - time.perf_counter()) > 0:
            terminal.read(left)
        terminal.forget()
    return taken


def _screens_changed(terminal: Terminal, size: str) -> list[Result]:
    """From the key to the moment the other screen's rows stand there."""
    taken = []
    for number in range(30):
        key, sign = (("1", "Account 5"), ("2", "created"))[number % 2]
        terminal.settle(0.1)
        terminal.forget()
        pressed = terminal.press(key)
        terminal.forget()
        taken.append((terminal.until(sign) - pressed) * 1000)
    return [_result(f"change of screen p95, {size}", taken, "ms", SCREEN_MS, p95)]


# ---------------------------------------------------------------------- beside a loaded server of its own


def _beside_load(folder: Path, rounds: int) -> list[Result]:
    books = asyncio.run(make_books(folder / "ledger.db"))
    columns, rows = 120, 40
    command = _command("--database", str(books.path))
    with Terminal(command, columns, rows, _environment(folder)) as terminal:
        terminal.until("online")
        terminal.settle()
        found = re.search(rb"127\.0\.0\.1:\d+", terminal.seen)
        if found is None:
            raise RuntimeError("the dashboard does not say where its server is")
        address = f"http://{found.group().decode()}"
        with _loaded(address, books.key, books.accounts[0]) as load:
            terminal.press("2")
            terminal.until("credit")
            results = _scrolled(terminal, f"its server under {LOAD_PER_SECOND} requests/s")
            results += _screens_changed(terminal, f"its server under {LOAD_PER_SECOND} requests/s")
            rate = load()
    results.append(_result("requests/s its server took meanwhile", [rate], "/s", None, max))
    return results


@contextmanager
def _loaded(url: str, key: str, account: str) -> Iterator[object]:
    yield lambda: 0.0


# ---------------------------------------------------------------------- helpers


@contextmanager
def _started(module: str, *arguments: str) -> Iterator[str]:
    """The URL of a server in a process of its own, which is killed at the end."""
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().removeprefix("Listening on ").strip()
    finally:
        process.kill()
        process.wait()


def p95(values: list[float]) -> float:
    return sorted(values)[math.ceil(len(values) * 0.95) - 1]


def _result(name, values, unit, target, reduce) -> Result:
    value = reduce(values)
    say(f"  {name}: {value:.3f} {unit} (median {statistics.median(values):.3f}, highest {max(values):.3f})")
    return Result(
        name,
        value,
        unit,
        statistics.median(values),
        None,
        unit,
        None if target is None else "<=",
        target,
        min(values),
        max(values),
        len(values),
    )
