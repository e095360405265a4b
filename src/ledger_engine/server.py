"""The server process: one database, one socket and one event loop, from start to graceful shutdown."""

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
from typing import TYPE_CHECKING, Any

from hypercorn.asyncio import serve as serve_http
from hypercorn.config import Config

from ledger_engine.access import api_keys, projects
from ledger_engine.core.errors import Conflict
from ledger_engine.core.printable import LineFormatter
from ledger_engine.core.settings import BadSettings, ServeSettings, make_folder
from ledger_engine.core.tenant import Tenant
from ledger_engine.database import Unit
from ledger_engine.database.engine import Engine, open_engine
from ledger_engine.database.lock import ServingLock
from ledger_engine.events.webhooks.sealing import Seal
from ledger_engine.http.app import create_app
from ledger_engine.http.protocol.gate import AuthRateLimit
from ledger_engine.http.protocol.hypercorn_patch import make_strict
from ledger_engine.http.protocol.proxies import BehindProxies
from ledger_engine.http.protocol.serving import cut_connections
from ledger_engine.http.protocol.tcp import HEAD_BUFFER
from ledger_engine.http.sign_in.issuer import Issuer
from ledger_engine.upkeep.background import Background
from ledger_engine.upkeep.timekeeping import Timekeeper

if TYPE_CHECKING:
    from ledger_engine.seeding.demo import Demo

DRAIN_S = 8  # the time requests in progress have to finish; container hosts kill after 10
BACKLOG = 4096  # connections that the system queues while the server is busy; it may have a lower limit
IDLE_S = 30  # an idle connection is closed after this, and so is one that has not sent its headers yet


@dataclass(frozen=True, slots=True)
class Ready:
    """What is printed once the server accepts requests.

    `key` is the value of a test key, shown only here: the first key of a new project, or the dashboard's own.
    `notice` says what is paused because the machine's clock may be wrong.
    """

    url: str
    key: str | None
    notice: str | None


def run(
    settings: ServeSettings,
    announce: Callable[[Ready], None],
    report: Callable[[float], None] = lambda _share: None,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP, or the end of stdin when embedded; then finish open requests.

    `report` is called with the share of a demo's data that is loaded, before `announce`.

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
                runner.run(_serve(settings, database, lock, announce, report))
        finally:
            lock.release()


async def _serve(
    settings: ServeSettings,
    database: Path,
    lock: ServingLock,
    announce: Callable[[Ready], None],
    report: Callable[[float], None],
) -> None:
    stop, hurry = asyncio.Event(), asyncio.Event()
    _stop_on_signals(stop, hurry)
    if settings.embedded:
        _stop_at_end_of_stdin(stop)
    config = _configure(settings)
    listener = _listen(settings.host, settings.port)
    url = _url(settings, listener)
    config.bind = [f"fd://{listener.detach()}"]  # Hypercorn owns and closes it from here
    async with (
        _open(database) as engine,
        _credential(engine, settings) as key,
        _demo(engine, wanted=settings.database is None, report=report) as demo,
        _background(engine, settings) as background,
    ):
        limit = AuthRateLimit(settings.auth_per_minute, settings.auth_per_second)
        issuer = Issuer(settings.issuer, settings.host)
        app = create_app(
            engine,
            issuer=issuer,
            auth_rate_limit=limit,
            recorder=background.recorder,
            cors_origins=settings.cors_origins,
        )
        served: Any = BehindProxies(app, settings.trusted_proxies) if settings.trusted_proxies else app

        async def announce_and_wait() -> None:
            # Hypercorn calls this once it accepts connections, and stops when it returns.
            lock.note_url(url)
            announce(Ready(url, key, engine.notice))
            if demo is not None:
                demo.start(url, settings.certfile)
            await stop.wait()
            background.begin_stop()

        serving = asyncio.create_task(
            serve_http(served, config, shutdown_trigger=announce_and_wait, mode="asgi")
        )
        await _first_of(serving, stop)
        await _first_of(serving, hurry, seconds=DRAIN_S)
        while not serving.done():
            cut_connections()
            await asyncio.wait({serving}, timeout=1)
        await serving


async def _first_of(task: asyncio.Task[None], event: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until the task is done, the event is set, or so many seconds have passed."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({task, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


@contextlib.contextmanager
def _database_file(settings: ServeSettings) -> Iterator[Path]:
    """Yield the file to serve; for a demo, a file in a private folder that is removed at the end."""
    if settings.database is not None:
        make_folder(settings.database)
        yield settings.database
        return
    folder = tempfile.mkdtemp(prefix="ledger-demo-")  # its mode is 0700
    try:
        yield Path(folder, "demo.db")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def _open(database: Path) -> AsyncIterator[Engine]:
    engine = open_engine(database, serving=True)
    try:
        # Only one process serves the file, so the servers of all stored session keys have ended.
        await engine.write(api_keys.revoke_sessions)
        yield engine
    finally:
        await engine.close()


@contextlib.asynccontextmanager
async def _credential(engine: Engine, settings: ServeSettings) -> AsyncIterator[str | None]:
    """Yield the value of the key to show, None if there is none.

    It is the first key of a new project, or an embedded dashboard's, which is revoked at the end. The key of
    the settings is known, and so is not shown. Raises BadSettings when that one cannot be had.
    """
    value = api_keys.new_value(livemode=False)
    try:
        shown = await engine.write(partial(_make_key, value=value, settings=settings))
    except Conflict as error:
        raise BadSettings(f"--api-key cannot be used: {error.message}") from error
    try:
        yield value if shown else None
    finally:
        if settings.embedded:
            await engine.write(api_keys.revoke_sessions)


@contextlib.asynccontextmanager
async def _background(engine: Engine, settings: ServeSettings) -> AsyncIterator[Background]:
    # The data of a demo are new, whatever the machine's clock shows.
    timekeeper = Timekeeper(engine, accept=settings.accept_clock or settings.database is None)
    await timekeeper.begin()
    background = Background(engine, Seal.from_environment(), timekeeper, retries_s=settings.webhook_retries_s)
    background.start()
    try:
        yield background
    finally:
        await background.stop()


def _make_key(unit: Unit, value: str, settings: ServeSettings) -> bool:
    """Create the key to show with this value, and that of the settings. Returns whether there is one to show.

    Raises Conflict when the key of the settings cannot be had.
    """
    project, new = projects.first_or_new(unit)
    tenant, embedded = Tenant(project.id, livemode=False), settings.embedded
    if settings.api_key is not None:
        if project.archived_at is not None:
            raise Conflict("not_recoverable", f"The project {project.id} is archived.")
        api_keys.ensure(unit, tenant, settings.api_key)
        new = False
    if embedded:
        api_keys.create(unit, tenant, api_keys.NewApiKey("dashboard", "owner", session=True), value)
    elif new:
        api_keys.create(unit, tenant, api_keys.NewApiKey("first key", "owner"), value)
    return embedded or new


@contextlib.asynccontextmanager
async def _demo(
    engine: Engine, *, wanted: bool, report: Callable[[float], None]
) -> AsyncIterator[Demo | None]:
    """Load a demo's data, if this is one, and yield the demo."""
    if not wanted:
        yield None
        return
    from ledger_engine.seeding import demo

    async with demo.staged(engine, report) as staged:
        yield staged


def _configure(settings: ServeSettings) -> Config:
    config = Config()
    config.loglevel = "WARNING"
    config.backlog = BACKLOG
    config.keep_alive_timeout = IDLE_S
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
    """Return a bound socket; raises OSError with a sentence when the address cannot be bound."""
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
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, HEAD_BUFFER)
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


def _stop_on_signals(stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """Make the first signal set `stop`, and the second one `hurry`."""
    loop = asyncio.get_running_loop()
    signals = [signal.SIGTERM, signal.SIGINT]
    # nohup ignores SIGHUP; then it stays ignored.
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)

    def note_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in signals:
        if sys.platform == "win32":
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(note_signal))
        else:
            loop.add_signal_handler(number, note_signal)


def _stop_at_end_of_stdin(stop: asyncio.Event) -> None:
    """Set `stop` when stdin ends.

    The parent process has the other end of it, which closes when the parent ends, in whichever way.
    """
    loop = asyncio.get_running_loop()

    def read_to_the_end() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has stopped already
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=read_to_the_end, name="stdin", daemon=True).start()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    if sys.platform == "win32":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop
