"""The server process: one database and one socket, from the start to a graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from quart import Quart

from ledger_engine.access import api_keys, credentials
from ledger_engine.core import logs
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import BadSettings, Location, ServeSettings
from ledger_engine.server import ledger
from ledger_engine.server.listening import cannot_listen, configure, listen, tell_systemd, url_of
from ledger_engine.server.new_key import DASHBOARD, show_new_key
from ledger_engine.server.serving import Stop, begin_serving, loop_factory, make_app, serve_until
from ledger_engine.server.unopened import Unopened
from ledger_engine.store.engine import open_engine
from ledger_engine.store.files import work_folder
from ledger_engine.store.sqlite.lock import ServingLock, served_at, serving_lock

KEY_CHECKED_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Ready:
    """The facts that are printed when the server begins to accept requests.

    `url` is None if another ASGI server owns the socket. `key` is the value of a new key, which is shown only
    here: the ledger's first key or the dashboard's key. `key` is None if this start created no key.
    `lacks_key` is true for a ledger without any key. `notice` describes problems that a person must decide or
    repair; it is None if there is no problem. `metrics_url` is None if no metrics are served.
    """

    url: str | None
    key: str | None
    notice: str | None
    metrics_url: str | None
    lacks_key: bool = False


Announce = Callable[[Ready], bool]  # prints the facts, and returns whether `key` was shown


def run(
    settings: ServeSettings,
    announce: Announce,
    report: Callable[[float], None] = lambda _share: None,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP, then finish the open requests.

    A server that a dashboard started for itself is *embedded*: it also stops when stdin ends. While a demo
    loads its data, `report` is called with the fraction loaded so far (0 to 1). When the server begins to
    accept requests, `announce` is called. If this server is embedded and another process already serves its
    file, this process serves nothing: it announces the other server's address and a new key for that server.

    Raises BadSettings, StorageUnavailable, and OSError if the server cannot listen on the address.
    """
    settings.check()
    logs.configure(settings.log_format, settings.log_level)
    _require_folders(settings)
    with ledger.location(settings) as database:
        try:
            # A lock lets only one process serve a file. Several servers can share a PostgreSQL database.
            lock = ServingLock(database) if isinstance(database, Path) else None
        except StorageUnavailable:
            url = served_at(database) if settings.embedded and isinstance(database, Path) else None
            if url is None:
                raise
            asyncio.run(_accompany(url, database, announce))
            return
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(_serve(settings, database, lock, announce, report))
        finally:
            if lock is not None:
                lock.release()


def application(settings: ServeSettings, announce: Announce) -> Quart:
    """Return the application for another ASGI server. Raises BadSettings.

    The lifespan events of the ASGI server open and close the ledger. Until the ledger is open, the
    application refuses each request.
    """
    settings.check()
    if settings.database is None:
        raise BadSettings(
            "--demo is for `ledger-engine serve`: the demo's traffic needs the server's address."
        )
    _require_folders(settings)
    app = make_app(settings)
    dispatcher: Any = app.asgi_app
    unopened: Any = Unopened(dispatcher, settings)
    app.asgi_app = unopened

    @app.while_serving
    async def serving() -> AsyncGenerator[None, None]:
        logs.configure(settings.log_format, settings.log_level)
        with ledger.location(settings) as database, serving_lock(database):
            async with ledger.serve_ledger(settings, database) as ledger_in_use:
                app.asgi_app = dispatcher
                begin_serving(
                    app,
                    settings,
                    ledger_in_use.engine,
                    ledger_in_use.background.recorder,
                    ledger_in_use.meter,
                )
                await _announce(ledger_in_use, settings, announce, None)
                yield

    return app


def _require_folders(settings: ServeSettings) -> None:
    """Create the folders for checkpoints.

    Raises BadSettings if the folder for backups or a folder for checkpoints cannot be written to.
    """
    if settings.backup_to is not None:
        _require_writable("--backup-to", settings.backup_to)
    for folder in settings.checkpoint_to:
        with contextlib.suppress(OSError):  # `_require_writable` raises an error that names the folder
            folder.mkdir(parents=True, exist_ok=True)
        _require_writable("--checkpoint-to", folder)


def _require_writable(option: str, folder: Path) -> None:
    try:
        with work_folder(folder):
            pass
    except OSError as error:
        raise BadSettings(f"{option} {folder} cannot be written to: {error.strerror}.") from error


async def _accompany(url: str, database: Location, announce: Announce) -> None:
    """Announce a new key for the server at `url`, which already serves the database in another process.

    Then wait until the dashboard that started this process ends. The new key is a session key, and a server
    revokes all session keys when it starts. So if the server at `url` is restarted, the key stops working.
    The next check of the key then raises AuthenticationError.
    """
    stop = Stop()
    stop.on_signals()
    stop.at_end_of_stdin()
    engine = open_engine(database)
    try:
        async with api_keys.key_of(engine, ledger.tenant_of_dashboard, DASHBOARD) as key:
            announce(Ready(url, key, None, None))
            while not stop.requested.is_set():
                await engine.read(partial(credentials.find, value=key))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.requested.wait(), KEY_CHECKED_EVERY_S)
    finally:
        await engine.close()


async def _announce(
    ledger_in_use: ledger.ServedLedger, settings: ServeSettings, announce: Announce, url: str | None
) -> None:
    """Announce that the server accepts requests; announce the new key too, if this start creates one."""

    def show(key: str | None, lacks_key: bool) -> bool:
        return announce(Ready(url, key, ledger_in_use.engine.notice, ledger_in_use.metrics_url, lacks_key))

    await show_new_key(ledger_in_use.engine, settings, ledger_in_use.server, show)


async def _serve(
    settings: ServeSettings,
    database: Location,
    lock: ServingLock | None,
    announce: Announce,
    report: Callable[[float], None],
) -> None:
    stop = Stop()
    stop.on_signals()
    if settings.embedded:
        stop.at_end_of_stdin()
    config = configure(settings)
    with listen(settings.host, settings.port) as listener:
        url = url_of(settings, listener)
        async with ledger.serve_ledger(settings, database, report, url) as ledger_in_use:
            engine, background = ledger_in_use.engine, ledger_in_use.background

            async def note_ready() -> None:
                if lock is not None:
                    lock.note_url(url)
                await _announce(ledger_in_use, settings, announce, url)
                tell_systemd("READY=1")
                if ledger_in_use.demo is not None:
                    ledger_in_use.demo.start(url, settings.certfile)

            try:
                # Hypercorn owns and closes the socket from here on.
                config.bind = [f"fd://{listener.detach()}"]
                app = make_app(settings)
                begin_serving(app, settings, engine, background.recorder, ledger_in_use.meter)
                await serve_until(stop, app, config, note_ready, background.begin_stop)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                # Another program has bound the same address too, and was the first to listen on it.
                raise cannot_listen(settings.host, settings.port, error) from error
