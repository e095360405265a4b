"""The server process: one database, one socket, one event loop, from the start to a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hypercorn.asyncio import serve as serve_http
from hypercorn.config import Config

from ledger_engine.access import api_keys, projects
from ledger_engine.core.printable import LineFormatter
from ledger_engine.core.settings import BadSettings, ServeSettings, make_folder
from ledger_engine.core.tenant import Scope
from ledger_engine.database import Unit
from ledger_engine.database.engine import Engine, open_engine
from ledger_engine.database.lock import ServingLock
from ledger_engine.events.webhooks.sealing import Seal
from ledger_engine.http.app import create_app
from ledger_engine.http.protocol.gate import AuthRateLimit
from ledger_engine.http.protocol.http1 import make_strict
from ledger_engine.http.protocol.proxies import BehindProxies
from ledger_engine.upkeep.background import Background

DRAIN_S = 8  # how long requests under way may take to finish; container hosts kill after 10
BACKLOG = 1024  # connections the system holds while we are busy
IDLE_S = 30  # an idle connection is closed, and one that has not sent its request's headers by then


@dataclass(frozen=True, slots=True)
class Ready:
    """What is told once the server can serve.

    `key` is a test key's value that is shown this once: the new project's first, or a dashboard's own.
    """

    url: str
    key: str | None


def run(settings: ServeSettings, announce: Callable[[Ready], None]) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP, or the end of stdin when embedded; then finish what was begun.

    Raises BadSettings, StorageUnavailable, and OSError when the address cannot be listened on.
    """
    settings.check()
    lines = logging.StreamHandler()
    lines.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[lines])
    with _database_file(settings) as database:
        lock = ServingLock(database)
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(_serve(settings, database, lock, announce))
        finally:
            lock.release()


async def _serve(
    settings: ServeSettings, database: Path, lock: ServingLock, announce: Callable[[Ready], None]
) -> None:
    stop = asyncio.Event()
    _stop_on_signals(stop)
    if settings.embedded:
        _stop_at_end_of_stdin(stop)
    config = _configure(settings)
    listener = _listen(settings.host, settings.port)
    url = _url(settings, listener)
    config.bind = [f"fd://{listener.detach()}"]  # Hypercorn owns and closes it from here
    async with (
        _open(database) as engine,
        _credential(engine, embedded=settings.embedded) as key,
        _traffic(engine, play=settings.database is None),
        _background(engine, settings.webhook_retries_s) as background,
    ):
        limit = AuthRateLimit(settings.auth_per_minute, settings.auth_per_second)
        app = create_app(engine, auth_rate_limit=limit, recorder=background.recorder)
        served: Any = BehindProxies(app, settings.trusted_proxies) if settings.trusted_proxies else app

        async def announce_and_wait() -> None:
            # Hypercorn calls this once it accepts connections, and stops when it returns.
            lock.tell(url)
            announce(Ready(url, key))
            await stop.wait()
            background.begin_stop()

        serving = asyncio.create_task(
            serve_http(served, config, shutdown_trigger=announce_and_wait, mode="asgi")
        )
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        # Hypercorn gives the requests under way their time; the second limit is for a connection it
        # cannot get rid of.
        await asyncio.wait({serving}, timeout=DRAIN_S + 1)
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


@contextlib.contextmanager
def _database_file(settings: ServeSettings) -> Iterator[Path]:
    """The file to serve; for a demo one in a private folder that is removed at the end."""
    if settings.database is not None:
        make_folder(settings.database)
        yield settings.database
        return
    folder = tempfile.mkdtemp(prefix="ledger-demo-")  # 0700
    try:
        yield Path(folder, "demo.db")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def _open(database: Path) -> AsyncIterator[Engine]:
    engine = open_engine(database, serving=True)
    try:
        # Nobody else serves the file, so whoever still has a session's key has lost its server.
        await engine.write(api_keys.revoke_sessions)
        yield engine
    finally:
        await engine.close()


@contextlib.asynccontextmanager
async def _credential(engine: Engine, *, embedded: bool) -> AsyncIterator[str | None]:
    """The value of the key to show: the first project's first one, or a dashboard's, which ends with us."""
    value = api_keys.new_value(livemode=False)
    shown = await engine.write(partial(_make_key, value=value, embedded=embedded))
    try:
        yield value if shown else None
    finally:
        if embedded:
            await engine.write(api_keys.revoke_sessions)


@contextlib.asynccontextmanager
async def _background(engine: Engine, retries_s: tuple[float, ...]) -> AsyncIterator[Background]:
    background = Background(engine, Seal.from_environment(), retries_s=retries_s)
    background.start()
    try:
        yield background
    finally:
        await background.stop()


def _make_key(unit: Unit, value: str, *, embedded: bool) -> bool:
    project, new = projects.first_or_new(unit)
    scope = Scope(project.id, livemode=False)
    if embedded:
        api_keys.create(unit, scope, api_keys.NewApiKey("dashboard", "owner", session=True), value)
    elif new:
        api_keys.create(unit, scope, api_keys.NewApiKey("first key", "owner"), value)
    return embedded or new


@contextlib.asynccontextmanager
async def _traffic(engine: Engine, *, play: bool) -> AsyncIterator[None]:
    """In a demo there is a past, and while it is shown, something happens."""
    if not play:
        yield
        return
    from ledger_engine.seeding import demo

    await demo.make_past(engine)
    task = asyncio.create_task(demo.play(engine))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _configure(settings: ServeSettings) -> Config:
    config = Config()
    config.loglevel = "WARNING"
    config.backlog = BACKLOG
    config.keep_alive_timeout = IDLE_S
    config.graceful_timeout = DRAIN_S
    config.include_server_header = False
    make_strict(config)
    if settings.certfile is not None:
        config.certfile = str(settings.certfile)
        config.keyfile = str(settings.keyfile)
        try:
            config.create_ssl_context()
        except (ssl.SSLError, OSError) as error:
            raise BadSettings(f"--certfile and --keyfile cannot be used: {error}.") from error
    return config


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket; raises OSError with a sentence when the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise OSError(f"Cannot listen on {host}: {error.strerror}.") from error
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise OSError(
            f"Cannot listen on {host} port {port}: {error.strerror}. --port names another; 0 is any free one."
        ) from error
    return listener


def _url(settings: ServeSettings, listener: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{settings.scheme}://{host}:{listener.getsockname()[1]}"


def _stop_on_signals(stop: asyncio.Event) -> None:
    """A first signal stops gracefully; a second one, at once."""
    loop = asyncio.get_running_loop()
    signals = [signal.SIGTERM, signal.SIGINT]
    # nohup ignores the end of the terminal; so do we then.
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)

    def stop_gracefully() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        if sys.platform == "win32":
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
        else:
            loop.add_signal_handler(number, stop_gracefully)


def _stop_at_end_of_stdin(stop: asyncio.Event) -> None:
    """Whoever started us holds the other end of stdin: when they end, however that comes, it closes."""
    loop = asyncio.get_running_loop()

    def read_to_the_end() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the loop is closed: we have stopped already
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=read_to_the_end, name="stdin", daemon=True).start()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    if sys.platform == "win32":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop
