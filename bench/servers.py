"""Run servers in other processes: the ledger as users run it, and applications that do nothing.

`python -m bench.servers plain` runs an empty handler on Hypercorn, and `wire` runs the empty handler on the
ledger's own HTTP server. Each prints `Listening on http://…` when it accepts connections.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ledger_engine.core.settings import Location

SERVE = [sys.executable, "-m", "ledger_engine", "serve", "--port", "0", "--database"]


@contextmanager
def ledger(database: Path, *options: str) -> Iterator[str]:
    """Yield the URL of a ledger server on this file, and kill the server at the end."""
    with ledger_process(database, *options) as (_, url):
        yield url


@contextmanager
def ledger_process(
    database: Location, *options: str, before: Sequence[str] = (), package: Path | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the process id and the URL of a ledger server, and kill the server at the end.

    `before` are the words of a program that executes the server's command. `package` is a folder with a copy
    of the package `ledger_engine`, which the server then uses.
    """
    with _running([*before, *SERVE, str(database), *options], package) as started:
        yield started


@contextmanager
def empty(kind: str) -> Iterator[str]:
    """Yield the URL of a server whose only handler returns an empty answer; `kind` is `plain` or `wire`."""
    with _running([sys.executable, "-m", "bench.servers", kind]) as (_, url):
        yield url


@contextmanager
def _running(command: Sequence[str], package: Path | None = None) -> Iterator[tuple[int, str]]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if package is not None:
        environment["PYTHONPATH"] = str(package)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Listening on "):
                yield process.pid, line.removeprefix("Listening on ").strip()
                return
        raise RuntimeError(f"{' '.join(command)} ended before it served")
    finally:
        process.kill()
        process.wait()


async def _serve_nothing(kind: str) -> None:
    import hypercorn.asyncio
    from hypercorn.config import Config

    from bench.empty import app
    from ledger_engine.http.wire.serving import serve

    config = Config()
    listening = socket.socket()
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.bind(("127.0.0.1", 0))
    # Hypercorn would call `listen` later, but clients connect as soon as the line below is printed.
    listening.listen(config.backlog)
    config.bind = [f"fd://{listening.fileno()}"]
    config.errorlog = None
    print(f"Listening on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    run: Callable[..., Awaitable[None]] = serve if kind == "wire" else hypercorn.asyncio.serve
    await run(app, config, shutdown_trigger=asyncio.Event().wait)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve_nothing(sys.argv[1]))
