"""Dumps of a PostgreSQL database by PostgreSQL's own programs, `pg_dump` and `pg_restore`, where they are."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger_engine.core.errors import Conflict, StorageUnavailable
from ledger_engine.core.processes import without_settings
from ledger_engine.core.settings import named
from ledger_engine.store.postgres.connection import CONNECT_S, Connection
from ledger_engine.store.postgres.errors import ConnectionLost, DatabaseFailed, unavailable
from ledger_engine.store.postgres.hosts import connect
from ledger_engine.store.postgres.rendering import rendered

_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_TABLES = rendered(
    "SELECT count(*) AS tables FROM information_schema.tables"
    " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
)


@contextmanager
def dump(url: str, snapshot: str, target: Path) -> Iterator[None]:
    """Write the database as a snapshot has it to the file `target`, while the block runs.

    Raises Conflict without a suitable `pg_dump`, and StorageUnavailable when that fails.
    """
    program = _program("pg_dump", url)
    words = [program, "--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}"]
    dsn, environment = _without_password(url)
    running = subprocess.Popen(
        [*words, f"--file={target}", f"--dbname={dsn}"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        yield
        _, said = running.communicate()
    finally:
        running.kill()
        running.wait()
    if running.returncode:
        raise StorageUnavailable(f"{named(url)}: {_one_line(said)}")
    list_of(target, url)


def list_of(source: Path, url: str) -> str:
    """Return the table of contents of a dump. Raises Conflict when it cannot be read."""
    done = _run([_program("pg_restore", url), "--list", str(source)])
    if done.returncode:
        raise Conflict(
            "not_recoverable",
            f"{source} cannot be restored into PostgreSQL: {_one_line(done.stderr)}."
            " For a SQLite file use `ledger-engine migrate`.",
        )
    return done.stdout


def load(source: Path, url: str) -> None:
    """Restore a dump into an empty database, in one transaction.

    Raises Conflict for a database with tables and without a suitable `pg_restore`, and StorageUnavailable.
    """
    list_of(source, url)
    if _ask(url, lambda connection: int(connection.rows(_TABLES, {})[0]["tables"])):
        raise Conflict(
            "not_recoverable",
            f"{named(url)} is not empty, and nothing in it was changed. Restore into a new database, and"
            " serve that one.",
        )
    dsn, environment = _without_password(url)
    words = [_program("pg_restore", url), "--no-owner", "--no-privileges", "--single-transaction"]
    done = _run([*words, "--exit-on-error", f"--dbname={dsn}", str(source)], environment)
    if done.returncode:
        raise StorageUnavailable(f"{named(url)}: {_one_line(done.stderr)}")


def _program(name: str, url: str) -> str:
    """Return the path of one of PostgreSQL's programs. Raises Conflict when it is missing or too old."""
    program = shutil.which(name)
    if program is None:
        raise Conflict(
            "not_recoverable",
            f"This needs {name}, which is not installed: it comes with PostgreSQL, on Debian and Ubuntu in"
            " postgresql-client.",
        )
    server = _ask(url, lambda connection: connection.server_version)
    found = _VERSION.search(_run([program, "--version"]).stdout)
    if found is not None and int(found[1]) < server // 10_000:
        raise Conflict(
            "not_recoverable",
            f"{program} is of PostgreSQL {found[1]} and the server of {server // 10_000}, which needs a"
            f" {name} that is as new: put its folder first in PATH.",
        )
    return program


def _ask(url: str, question: Callable[[Connection], int]) -> int:
    try:
        with closing(connect(url, CONNECT_S)) as connection:
            return question(connection)
    except (ConnectionLost, DatabaseFailed) as error:
        raise unavailable(error) from error


def _without_password(url: str) -> tuple[str, dict[str, str]]:
    """Return the address without its password, and the environment with it.

    Everybody can see the words of a command in the list of processes.
    """
    parts = conninfo_to_dict(url)
    password = parts.pop("password", None)
    parts["client_encoding"] = "UTF8"
    return make_conninfo("", **parts), without_settings() | (
        {"PGPASSWORD": str(password)} if password else {}
    )


def _run(words: list[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        env=environment or without_settings(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )


def _one_line(said: str) -> str:
    """Return the first line of what a program said, without its own name."""
    first = next((line for line in said.splitlines() if line.strip()), "it failed without a message")
    return re.sub(r"^pg_\w+: (error: )?", "", first).rstrip(".")
