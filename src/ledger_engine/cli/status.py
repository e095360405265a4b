"""`ledger-engine status`: the state of a ledger on one screen of 80 columns, or as JSON."""

from __future__ import annotations

import asyncio
import socket
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_engine import __version__
from ledger_engine.cli import options, serve
from ledger_engine.cli.announcing import on_this_machine
from ledger_engine.cli.asking import refusal
from ledger_engine.cli.running import LedgerSource, in_words, print_json, require_database, say
from ledger_engine.core.clock import SystemClock, iso
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.logs import printable
from ledger_engine.core.settings import Location, named
from ledger_engine.core.tenant import mode_name
from ledger_engine.store.sqlite.lock import LockHolder, holder_of
from ledger_engine.store.sqlite.log import require_reachable

if TYPE_CHECKING:
    from ledger_engine.access.api_keys import ApiKey, ServerEntry
    from ledger_engine.log.stored import SealState
    from ledger_engine.store import Unit

ANSWER_SECONDS_MAX = 5.0  # more than the 4 seconds after which a server answers if its database hangs
_COLUMNS = 80
_LABEL = 10
_NAMES_MAX = 12  # how many names of keys the screen shows for each mode
_NAME_MAX = 40  # columns of the terminal; a longer name is cut
_UNITS_S = (("days", 86_400), ("hours", 3_600), ("minutes", 60))


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A process that serves the ledger, and its answer to the health check.

    `beaten` is the time of the last heartbeat, and `is_silent` is true if the heartbeats have stopped. If a
    server is silent, has stored no address or runs on another machine, the command does not ask it, and `ok`
    is None. `failure` is the reason why the server did not answer, or is not healthy. Times are in
    milliseconds since 1970.
    """

    id: str | None = None
    pid: int | None = None
    url: str | None = None
    host: str | None = None
    version: str | None = None
    started: int | None = None
    beaten: int | None = None
    is_silent: bool = False
    ok: bool | None = None
    notice: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerContent:
    """The part of the state that is read from the database.

    `keys` are the keys in use, each with the id of its project. `log` says how many events the checkpoints of
    the logs cover. `servers` is empty for a SQLite file.
    """

    keys: Sequence[tuple[str, ApiKey]]
    log: SealState
    servers: Sequence[ServerEntry]


@dataclass(frozen=True, slots=True)
class BackupsStatus:
    """The backups in a folder; `failure` is the reason why the folder cannot be read."""

    folder: str
    count: int = 0
    newest: int | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerStatus:
    """The state of a ledger.

    `killed` is the last server of a SQLite file if this server was killed, and otherwise None. If the ledger
    cannot be read, `content` is None and `failure` gives the reason. `backups` is None if the user did not
    name the folder of the backups.
    """

    database: Location
    now: int
    servers: Sequence[ServerStatus]
    killed: LockHolder | None
    content: LedgerContent | None
    failure: str | None
    backups: BackupsStatus | None


@click.command()
@serve.config
@serve.backup_to
@options.ledger()
def status(ledger: LedgerSource, backup_to: Path | None) -> None:
    """Show the server, keys, backups, log and notice of a ledger.

    Give the --config of your server, or --database and --backup-to. The command changes nothing. If no server
    runs, it reads the ledger itself and also exits with 0.
    """
    database = ledger.database
    if isinstance(database, Path):
        require_reachable(database)
    holder = holder_of(database) if isinstance(database, Path) else None
    content, failure = None, None
    try:
        content = _read(database)
    except StorageUnavailable as error:
        if holder is None or not holder.is_alive:
            raise
        failure = error.cause
    now = SystemClock().machine()
    state = LedgerStatus(
        database,
        now,
        asyncio.run(_ask_all(_servers(holder, content, now))),
        holder if holder is not None and not holder.is_alive else None,
        content,
        failure,
        None if backup_to is None or isinstance(database, str) else _backups(backup_to, database),
    )
    if ledger.as_json:
        print_json(_as_object(state))
        return
    for line in _screen(state):
        say(line)


def _read(database: Location) -> LedgerContent:
    """Read the ledger without changing it.

    Raises StorageUnavailable. Raises ClickException if there is no ledger.
    """
    from ledger_engine.access import api_keys
    from ledger_engine.log import stored
    from ledger_engine.store.engine import open_snapshot

    def find(unit: Unit) -> LedgerContent:
        return LedgerContent(api_keys.in_use(unit), stored.seal_state(unit), api_keys.servers(unit))

    require_database(database)
    with open_snapshot(database, 1) as snapshot:
        return snapshot.start(find).result()


def _backups(folder: Path, database: Path) -> BackupsStatus:
    from ledger_engine.upkeep.scheduled_backups import backups_in

    try:
        files = backups_in(folder, database)
    except OSError as error:
        return BackupsStatus(str(folder), failure=error.strerror)
    return BackupsStatus(str(folder), len(files), files[-1][0] * 1000 if files else None)


def _servers(holder: LockHolder | None, content: LedgerContent | None, now: int) -> list[ServerStatus]:
    """Return the servers of the ledger, sorted by machine and address.

    For a SQLite file, this is the process that holds the file's lock. On PostgreSQL each server has a row in
    the database, and a row can be out of date. The row of a killed server stays until the other servers
    notice that the server has ended. A restored dump contains the rows of the servers that ran when the dump
    was made. So a row is left out if a server that started later has the same address.
    """
    from ledger_engine.upkeep.heartbeat import SILENT_S

    if holder is not None and holder.is_alive:
        return [ServerStatus(pid=holder.pid, url=holder.url, version=holder.version, started=holder.started)]
    entries = [] if content is None else content.servers  # in the order of their start
    last_at = {(entry.host or "", entry.url or entry.id): entry for entry in entries}
    return [
        ServerStatus(
            **asdict(entry), is_silent=entry.beaten is not None and now - entry.beaten > SILENT_S * 1000
        )
        for _, entry in sorted(last_at.items())
    ]


async def _ask_all(servers: Sequence[ServerStatus]) -> list[ServerStatus]:
    return list(await asyncio.gather(*map(_ask_health, servers)))


async def _ask_health(server: ServerStatus) -> ServerStatus:
    """Ask a server on this machine for its health, and return the server with the answer.

    A server on another machine is not asked, because its address may be reachable only there.
    """
    if server.url is None or server.is_silent or server.host not in (None, socket.gethostname()):
        return server
    # Imported here, because httpx takes longer to load than most commands take to run.
    from ledger_client.errors import LedgerError
    from ledger_client.ledger import AsyncLedger

    # Do not check the certificate, because it may not contain the address on this machine. This is safe,
    # because no credential is sent.
    settings: dict[str, Any] = {"trust_env": False, "timeout": None, "verify": False}
    settings["seconds_max"] = ANSWER_SECONDS_MAX
    url = on_this_machine(server.url)
    try:
        async with AsyncLedger(url, attempts=1, **settings) as ledger:
            health = await ledger.health()
    except LedgerError as error:
        return replace(server, ok=False, failure=refusal(error, url))
    return replace(server, ok=health.ok, notice=health.notice)


def _location_name(database: Location) -> str:
    return named(database if isinstance(database, str) else database.absolute())


# As JSON


def _as_object(state: LedgerStatus) -> dict[str, Any]:
    content = state.content
    return {
        "database": _location_name(state.database),
        "version": __version__,
        "servers": [_with_times(asdict(server), "started", "beaten") for server in state.servers],
        "killed": None if state.killed is None else _with_times(asdict(state.killed), "started"),
        "keys": None if content is None else [_key_as_object(*key) for key in content.keys],
        "backups": None if state.backups is None else _with_times(asdict(state.backups), "newest"),
        "log": None if content is None else _with_times(asdict(content.log), "sealed"),
        "failure": state.failure,
    }


def _with_times(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    times = {name: None if fields[name] is None else iso(fields[name]) for name in names}
    return {**fields, **times}


def _key_as_object(project: str, key: ApiKey) -> dict[str, Any]:
    return {"id": key.id, "name": key.name, "role": key.role, "livemode": key.livemode, "project": project}


# As a screen


def _screen(state: LedgerStatus) -> Iterator[str]:
    """Yield the lines of the screen. A long text continues in the next line, under its first word."""
    for label, text in _rows(state):
        line, is_empty = label.ljust(_LABEL), True
        for word in printable(text).split(" "):
            if _width(line) + _width(word) > _COLUMNS and not is_empty:
                yield line.rstrip()
                line = " " * _LABEL
            line, is_empty = f"{line}{word} ", False
        yield line.rstrip()


def _rows(state: LedgerStatus) -> Iterator[tuple[str, str]]:
    yield "Ledger", _location_name(state.database)
    if state.failure is not None:
        yield "", f"It cannot be read: {state.failure}"
    yield from _labeled("Served", _served_in_words(state))
    yield "Version", f"{__version__} (this program)"
    healths = [_health_in_words(server) for server in state.servers if not server.is_silent]
    yield from _labeled("Health", healths or ["unknown"])
    yield from _labeled("Keys", _keys_in_words(state.content))
    yield "Backups", _backups_in_words(state)
    yield "Log", _log_in_words(state)
    answers = [server for server in state.servers if server.ok is not None and server.failure is None]
    yield from _labeled("Notice", _notices_in_words(answers))


def _notices_in_words(answers: Sequence[ServerStatus]) -> list[str]:
    """Return the notice that all servers share, or each server's notice after the server's address."""
    notices = {server.notice for server in answers}
    if len(notices) > 1:
        return [f"{server.url}: {server.notice}" for server in answers if server.notice is not None]
    return [notices.pop() or "none"] if notices else ["unknown: no server was reached"]


def _labeled(label: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(texts):
        yield "" if number else label, text


def _served_in_words(state: LedgerStatus) -> list[str]:
    if state.killed is not None:
        process = "" if state.killed.pid is None else f" (process {state.killed.pid})"
        return [f"not served; the last server{process} was killed or crashed"]
    return [_server_in_words(server, state.now) for server in state.servers] or ["not served"]


def _server_in_words(server: ServerStatus, now: int) -> str:
    process = "by a process" if server.pid is None else f"by process {server.pid}"
    who = process if server.id is None else f"by {server.id} on {server.host or 'an unknown machine'}"
    where = "without an address of its own" if server.url is None else f"at {server.url}"
    if server.is_silent and server.beaten is not None:
        return f"{where} {who}: silent for {_age(now - server.beaten)}, so it has probably ended"
    version = "" if server.version is None else f", version {server.version}"
    since = "" if server.started is None else f", since {_time_and_age(server.started, now)}"
    return f"{where} {who}{version}{since}"


def _health_in_words(server: ServerStatus) -> str:
    if server.failure is not None:
        return server.failure
    if server.ok is not None:
        return f"{server.url} is {'healthy' if server.ok else 'not healthy'}"
    return f"{server.url or 'a server without an address'} was not asked"


def _keys_in_words(content: LedgerContent | None) -> list[str]:
    if content is None:
        return ["unknown"]
    lines = []
    for livemode in (True, False):
        names = [key.name or key.id for _, key in content.keys if key.livemode is livemode]
        more = f" and {len(names) - _NAMES_MAX:,} more" if len(names) > _NAMES_MAX else ""
        if names:
            shown = ", ".join(map(_short_name, names[:_NAMES_MAX]))
            lines.append(f"{len(names):,} {mode_name(livemode)}: {shown}{more}")
    return lines or ["none"]


def _backups_in_words(state: LedgerStatus) -> str:
    if isinstance(state.database, str):
        return "unknown: PostgreSQL's own tools make them"
    backups = state.backups
    if backups is None:
        return "unknown: name their folder with --backup-to or --config"
    if backups.failure is not None:
        return f"{backups.folder} cannot be read: {backups.failure}"
    if backups.newest is None:
        return f"none in {backups.folder}"
    newest = _time_and_age(backups.newest, state.now)
    return f"the newest is of {newest}; {in_words(backups.count, 'backups')} in {backups.folder}"


def _log_in_words(state: LedgerStatus) -> str:
    if state.content is None:
        return "unknown"
    log = state.content.log
    books = in_words(log.books_behind, "books")
    behind = f"; the newest events of {books} are not sealed" if log.books_behind else ""
    if log.sealed is None:
        return f"no checkpoint yet{behind}"
    newest = _time_and_age(log.sealed, state.now)
    return f"the last checkpoint is of {newest}; {in_words(log.events, 'events')} sealed{behind}"


def _time_and_age(moment: int, now: int) -> str:
    return f"{iso(moment)[:19]}Z ({_age(now - moment)})"


def _age(ms: int) -> str:
    seconds = max(0, ms // 1000)
    for unit, length in _UNITS_S:
        if seconds >= 2 * length:
            return in_words(seconds // length, unit)
    return in_words(seconds, "seconds")


def _short_name(name: str) -> str:
    """Return the name; if it takes more than `_NAME_MAX` columns, cut it and add `…`."""
    text = printable(name)
    if _width(text) <= _NAME_MAX:
        return text
    while _width(text) >= _NAME_MAX:
        text = text[:-1]
    return f"{text}…"


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes at most."""
    return len(text) + sum(unicodedata.east_asian_width(character) in "WF" for character in text)
