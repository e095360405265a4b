"""Opens the database for a command, and runs the command's work on it. A server may run at the same time.

The module also prints the output of commands: JSON for programs, lines and tables for people, and the
progress of a long command.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from ledger_engine.access import projects
from ledger_engine.access.projects import Project
from ledger_engine.core.errors import Conflict
from ledger_engine.core.logs import printable, printable_json
from ledger_engine.core.records import Record, as_json
from ledger_engine.core.settings import Location, make_folder
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import T, Unit, Work
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.sqlite.log import require_file_of_log, require_reachable

_PROGRESS_S = 0.1  # seconds between two updates of a progress bar
R = TypeVar("R", bound=Record)


async def using(database: Location, use: Callable[[Engine], Awaitable[T]]) -> T:
    """Open the database for the duration of `use`; create it if it is missing."""
    make_folder(database)
    engine = open_engine(database)
    try:
        return await use(engine)
    finally:
        await engine.close()


def known_project(unit: Unit, id: str | None) -> Project:
    """Return the project with this id, or the database's first project.

    Raises NotFound, and Conflict if there is no project yet.
    """
    project = projects.first(unit) if id is None else projects.get(unit, id)
    if project is None:
        raise Conflict(
            "not_recoverable",
            "There is no project yet; create one with `ledger-engine projects create NAME`.",
        )
    return project


def json_object(record: Record, **more: Any) -> dict[str, Any]:
    """Return a record as a JSON object, with the fields in `more` added."""
    return {**as_json(record), **more}


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print one JSON document on stdout; without `indent`, as one line."""
    _write(printable_json(json.dumps(value, ensure_ascii=False, indent=indent)))


def say(line: str, *, err: bool = False) -> None:
    """Print one line for people, on stdout or stderr.

    Control characters are escaped, because the line may contain names that other people chose.
    """
    _write(printable(line), err=err)


def in_words(count: int, kind: str) -> str:
    """Return a count with its noun, such as `1 account` or `2 accounts`; `kind` is the noun's plural."""
    return f"{count:,} {kind if count != 1 else kind.removesuffix('s')}"


@dataclass(frozen=True, slots=True)
class LedgerSource:
    """The ledger that the options of a command select.

    The methods run the command's work on the ledger, and print the result, as JSON if `as_json` is true.
    `project` and `mode` are the values of the options --project and --mode. A command without these options
    uses the defaults.
    """

    database: Location
    as_json: bool = False
    project: str | None = None
    mode: str = "test"

    def read(self, work: Work[T]) -> T:
        """Run a work that only reads, on a database that must exist."""
        require_database(self.database)
        return asyncio.run(using(self.database, lambda engine: engine.read(work)))

    def write(self, work: Work[T], *, make: bool = False) -> T:
        """Run a work as one transaction; with `make` a missing database is created."""
        if not make:
            require_database(self.database)
        return asyncio.run(using(self.database, lambda engine: engine.write(work)))

    def use(self, use: Callable[[Engine], Awaitable[T]]) -> T:
        """Run `use` with the engine of a database that must exist."""
        require_database(self.database)
        return asyncio.run(using(self.database, use))

    def selected_project(self, unit: Unit) -> Project:
        """Return the selected project, or the first project. Raises the errors of `known_project`."""
        return known_project(unit, self.project)

    def tenant(self, unit: Unit) -> Tenant:
        """Return the tenant of the selected project and mode. Raises the errors of `known_project`."""
        return Tenant(self.selected_project(unit).id, self.mode == "live")

    def new_tenant(self, unit: Unit) -> Tenant:
        """Return the tenant for a command that adds data. If the database has no project, create one."""
        owner = projects.to_add_to(unit, self.project)
        return Tenant(owner.id, self.mode == "live", quota=owner.limits.stored_objects)

    def print_list(
        self,
        records: Sequence[R],
        columns: Mapping[str, Callable[[R], str]],
        show: Callable[[R], dict[str, Any]] = json_object,
    ) -> None:
        """Print records as JSON or as a table.

        `columns` maps each heading to a function that returns the text of a record's cell. A column is as
        wide as its widest cell. Without records only the headings are printed.
        """
        if self.as_json:
            print_json([show(record) for record in records])
            return
        table = [[*columns], *([printable(cell(record)) for cell in columns.values()] for record in records)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            say(line.rstrip())

    def print_one(self, value: dict[str, Any], line: str, note: str | None = None) -> None:
        """Print the result of a command: `value` as JSON, or `line` for people.

        `note`, such as the role of a new key, goes to stderr. With a note, `line` must be the value alone,
        such as the key: a script reads stdout, and needs nothing but the value.
        """
        if self.as_json:
            print_json(value)
            return
        say(line)
        if note is not None:
            say(note, err=True)


def _write(text: str, *, err: bool = False) -> None:
    try:
        click.echo(text, err=err)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"The output cannot be written: {error.strerror}.") from error


def run_in_thread(work: Callable[[], T]) -> Future[T]:
    """Run the work in a new thread. The program can end while the thread still runs."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome


def with_progress(work: Callable[[], T], look: Callable[[], tuple[str, int, int]]) -> T:
    """Run the work in a thread, show its progress, and return its result.

    `look` is called repeatedly: it returns a label, how much of the work is done, and the total. If stderr is
    not a terminal, only an error is printed there.
    """
    outcome = run_in_thread(work)
    what, _, length = look()
    with click.progressbar(
        length=max(1, length), label=what, file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        while not wait((outcome,), timeout=_PROGRESS_S).done:
            bar.label, count, length = look()
            bar.length = max(1, length)
            bar.update(min(count, bar.length - 1) - bar.pos)
        bar.update(max(1, look()[2]) - bar.pos)
    return outcome.result()


def require_database(database: Location) -> None:
    """Raise ClickException if the file of a ledger does not exist.

    Raises StorageUnavailable if the name leads to a folder or a special file, such as a pipe, or if the
    ledger's log exists, but the ledger's file is missing.
    """
    if isinstance(database, str):
        return  # a PostgreSQL database exists, or opening it raises an error
    require_reachable(database)
    require_file_of_log(database)
    if not database.is_file():
        raise click.ClickException(f"There is no database {database}; `ledger-engine serve` creates one.")
