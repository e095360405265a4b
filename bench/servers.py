"""Servers in processes of their own: the ledger as it is shipped, and applications that do nothing.

`python -m bench.servers plain` is an empty handler on Hypercorn as it is; with `wire` it is on our own
HTTP server. Both print `Listening on http://…` once they listen.
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
    """Yield the URL of a ledger server on this file, which is killed at the end."""
    with ledger_process(database, *options) as (_, url):
        yield url


@contextmanager
def ledger_process(
    database: Location, *options: str, before: Sequence[str] = (), package: Path | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the process id and the URL of a ledger server, which is killed at the end.

    `before` are words before its command, as of a program that executes it. With `package` the server is
    that of the package in this folder.
    """
    with _running([*before, *SERVE, str(database), *options], package) as started:
        yield started


@contextmanager
def empty(kind: str) -> Iterator[str]:
    """Yield the URL of a server whose only handler has an empty answer; `kind` is `plain` or `wire`."""
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
    listening.listen(config.backlog)  # Hypercorn does so too, but connections must be accepted once we say so
    config.bind = [f"fd://{listening.fileno()}"]
    config.errorlog = None
    print(f"Listening on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    run: Callable[..., Awaitable[None]] = serve if kind == "wire" else hypercorn.asyncio.serve
    await run(app, config, shutdown_trigger=asyncio.Event().wait)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve_nothing(sys.argv[1]))
