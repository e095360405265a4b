"""The parts of a served ledger: its file, its engine, a demo's traffic, and its background tasks.

An *embedded* server is a server that a dashboard started for itself. A *session key* is the API key of a
program that works with one server, such as this dashboard. The key must not outlive the server, so
`register_server` revokes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ledger_engine.access import api_keys, projects
from ledger_engine.core.clock import Clock, SystemClock
from ledger_engine.core.errors import Conflict
from ledger_engine.core.settings import BadSettings, Location, ServeSettings, make_folder
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.log.notes import WITNESS, BadNote, VerifierKey
from ledger_engine.log.publishing import CheckpointPlaces, WitnessAddress
from ledger_engine.server.listening import in_url
from ledger_engine.server.new_key import ensure_key_of_settings
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.sqlite.log import require_reachable
from ledger_engine.upkeep.background import Background
from ledger_engine.upkeep.heartbeat import Heartbeat
from ledger_engine.upkeep.scheduled_backups import ScheduledBackups

if TYPE_CHECKING:
    from ledger_engine.sandbox.helpers import Helpers
    from ledger_engine.tools.seed.demo import Demo
    from ledger_engine.upkeep.metrics import Metrics


@contextlib.contextmanager
def location(settings: ServeSettings) -> Iterator[Location]:
    """Yield the ledger's location, and create the folder of its file.

    A demo's ledger is a file in a new private folder. This folder is removed at the end.
    """
    if settings.database is not None:
        make_folder(settings.database)
        if isinstance(settings.database, Path):
            require_reachable(settings.database)
        yield settings.database
        return
    folder = tempfile.mkdtemp(prefix="ledger-demo-")  # the mode of the folder is 0700
    try:
        yield Path(folder, "demo.db")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def seed(settings: ServeSettings, database: Location) -> None:
    """If the settings name a data set and the ledger is empty, load the data set into the ledger.

    Call this before the ledger is served. Raises BadSettings for an unusable data set, and the errors of
    `load_if_empty`.
    """
    if settings.seed is None:
        return
    from ledger_engine.tools.seed import reading
    from ledger_engine.tools.seed.loading import load_if_empty
    from ledger_engine.tools.seed.reading import BadDataSet

    try:
        data_set = reading.read(reading.path(settings.seed))
    except (BadDataSet, OSError) as error:
        raise BadSettings(f"--seed cannot be used: {error}") from error
    await load_if_empty(database, data_set)


@dataclass(frozen=True, slots=True)
class ServedLedger:
    """A ledger that is being served, with the parts of its server.

    `server` is the server's id; None for a SQLite file, because only one server serves a file. `demo`
    is None without `--demo`; `meter`, which counts requests, and `metrics_url` are None without `--metrics`.
    """

    engine: Engine
    server: str | None
    demo: Demo | None
    background: Background
    meter: Metrics | None
    metrics_url: str | None


@contextlib.asynccontextmanager
async def serve_ledger(
    settings: ServeSettings,
    database: Location,
    report: Callable[[float], None] = lambda _share: None,
    url: str | None = None,
) -> AsyncIterator[ServedLedger]:
    """Open the ledger, start the server's background tasks, and yield the ledger.

    At the end the tasks are stopped and the ledger is closed. While a demo loads its data, `report` is called
    with the fraction loaded so far. `url` is the server's address; None if another program owns the server's
    socket.
    """
    await seed(settings, database)
    async with (
        open_engine_to_serve(settings, database) as engine,
        register_server(engine, settings, database, url) as server,
        demo(engine, is_wanted=settings.database is None, report=report) as demo_stage,
        background(engine, settings, test_helpers(engine, settings, database)) as running,
        backups(engine, settings, database) as backup_task,
        metrics(engine, settings, backup_task) as (meter, metrics_url),
    ):
        yield ServedLedger(engine, server, demo_stage, running, meter, metrics_url)


@contextlib.asynccontextmanager
async def open_engine_to_serve(settings: ServeSettings, database: Location) -> AsyncIterator[Engine]:
    """Yield the engine of a process that serves the ledger.

    If the settings contain an API key, the key is stored first. Raises BadSettings if this is impossible.
    """
    engine = open_engine(
        database,
        clock=_clock(settings, database),
        serving=True,
        accept_loss=settings.accept_loss,
        state=_state_folder(),
    )
    try:
        await ensure_key_of_settings(engine, settings)
        yield engine
    finally:
        await engine.close()


@contextlib.asynccontextmanager
async def register_server(
    engine: Engine, settings: ServeSettings, database: Location, url: str | None
) -> AsyncIterator[str | None]:
    """Register the server in the database, and yield the server's id.

    The only server of a SQLite file has no id, so this yields None. On PostgreSQL, and for an embedded server
    on a file, the session keys of the server are revoked at the end. The session keys of any other server on
    a file are revoked when the next server of the file starts.
    """
    if isinstance(database, Path):
        # Only one process serves a file, so revoke all stored session keys: earlier servers left them.
        await engine.write(api_keys.end_all)
        try:
            yield None
        finally:
            if settings.embedded:
                await engine.write(api_keys.end_all)
        return
    heartbeat = Heartbeat(engine, url)
    await heartbeat.begin()
    heartbeat.start()
    try:
        yield heartbeat.server
    finally:
        await heartbeat.stop()
        await heartbeat.end()


def tenant_of_dashboard(unit: Unit) -> Tenant:
    """Return the tenant of dashboards: the test mode of the first project.

    Raises Conflict if there is no project.
    """
    project = projects.first(unit)
    if project is None:
        raise Conflict("not_recoverable", "There is no project; `ledger-engine projects create` creates one.")
    return Tenant(project.id, livemode=False)


@contextlib.asynccontextmanager
async def demo(
    engine: Engine, *, is_wanted: bool, report: Callable[[float], None]
) -> AsyncIterator[Demo | None]:
    """Load the demo's data and yield the demo; if `is_wanted` is false, yield None."""
    if not is_wanted:
        yield None
        return
    from ledger_engine.tools.seed.demo import stage

    async with stage(engine, report) as demo_stage:
        yield demo_stage


@contextlib.asynccontextmanager
async def background(
    engine: Engine, settings: ServeSettings, helpers: Helpers | None
) -> AsyncIterator[Background]:
    """Start the background tasks and yield them; stop them at the end."""
    running = Background(
        engine,
        Seal.from_environment(),
        retries_s=settings.webhook_retries_s,
        monotonic=engine.clock.monotonic,
        make_sender=None if helpers is None else helpers.make_sender,
        log_name=settings.log_name,
        outside=_checkpoint_places(settings),
    )
    await running.begin()
    if helpers is not None:
        helpers.begin(running)
    running.start()
    try:
        yield running
    finally:
        await running.stop()


def _checkpoint_places(settings: ServeSettings) -> CheckpointPlaces:
    """Return the folders and witnesses outside the ledger that the server sends its checkpoints to.

    Raises BadSettings for a text that is not the key of a witness.
    """
    try:
        keys = list(map(VerifierKey.parse, settings.witness_keys))
    except BadNote as error:
        raise BadSettings(f"--witness-key: {error}.") from error
    if any(key.kind != WITNESS for key in keys):
        raise BadSettings("--witness-key must be the key that the witness prints when it starts.")
    witnesses = [WitnessAddress(url, key) for url, key in zip(settings.witnesses, keys, strict=True)]
    return CheckpointPlaces(settings.checkpoint_to, witnesses)


@contextlib.asynccontextmanager
async def backups(
    engine: Engine, settings: ServeSettings, database: Location
) -> AsyncIterator[ScheduledBackups | None]:
    """Start the task that makes backups, and yield it; yield None without --backup-to or on PostgreSQL.

    Raises OSError.
    """
    if settings.backup_to is None or isinstance(database, str):
        yield None
        return
    backup_task = ScheduledBackups(
        engine, database, settings.backup_to, settings.backup_every_s, settings.backup_keep
    )
    backup_task.start()
    try:
        yield backup_task
    finally:
        await backup_task.stop()


@contextlib.asynccontextmanager
async def metrics(
    engine: Engine, settings: ServeSettings, backups: ScheduledBackups | None
) -> AsyncIterator[tuple[Metrics | None, str | None]]:
    """Yield the object that counts requests, and the URL of the metrics; both are None without --metrics."""
    if settings.metrics is None:
        yield None, None
        return
    # Imported here, because the import takes a tenth of a second.
    from ledger_engine.upkeep.metrics import Metrics

    host, port = settings.metrics
    figures = Metrics(engine, backups)
    listener = figures.serve(host, port)
    try:
        yield figures, f"http://{in_url(host)}:{listener.port}/metrics"
    finally:
        await listener.close()


def test_helpers(engine: Engine, settings: ServeSettings, database: Location) -> Helpers | None:
    """Return the test helpers of a server with --test-helpers; None for any other server."""
    if not settings.test_helpers or isinstance(database, str):
        return None
    from ledger_engine.sandbox.helpers import Helpers

    return Helpers.offer(engine, engine.clock, database)


def _state_folder() -> Path | None:
    """Return the first folder in the variable STATE_DIRECTORY; None if the variable is not set.

    systemd sets this variable for a unit with `StateDirectory=`. Without systemd you can set it yourself.
    """
    folder = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(folder) if folder else None


def _clock(settings: ServeSettings, database: Location) -> Clock:
    if not settings.test_helpers or isinstance(database, str):
        return SystemClock()
    from ledger_engine.sandbox import clock

    return clock.clock_of(database)
