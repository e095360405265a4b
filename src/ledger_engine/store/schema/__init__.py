"""The tables of a ledger: a folder of SQL files for each engine, in which each file is one migration.

The first migration is the baseline, the tables of version 1.0. Never change the statements of a released
file: to change the tables, add a new file with the same name to both folders. `Tables` creates the tables,
and brings an older database up to date.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Literal

from ledger_engine.core.errors import StorageUnavailable

Engine = Literal["sqlite", "postgres"]
FOLDER = Path(__file__).parent
BASELINE = "001_baseline"
_BEFORE_BASELINE = "m0"  # the names of migrations from before version 1.0 begin with this
NOT_UP_TO_DATE = "the database is not up to date; run `ledger-engine serve` on it once"
TOO_OLD = "it was written before version 1.0, and this version does not open such ledgers"
# If a constraint, a unique index or a trigger refuses a change, the log shows this note with the error.
REFUSED = "An added index, constraint or trigger may refuse the change: `ledger-engine verify` names them."
_NAMED_MAX = 3  # a message lists at most this many tables or faults
_MADE = re.compile(r"CREATE (?:UNIQUE |UNLOGGED )?(TABLE|INDEX|VIEW|TRIGGER) (\w+)")
_RENAMED = re.compile(r"ALTER (?:TABLE|INDEX) (\w+) RENAME TO (\w+)")
_DROPPED = re.compile(r"DROP (?:TABLE|INDEX|VIEW|TRIGGER) (?:IF EXISTS )?(\w+)")

Object = tuple[str, str]  # an object of the database: its kind, such as "table" or "index", and its name

log = logging.getLogger("ledger_engine.store.schema")


def names(engine: Engine) -> list[str]:
    """Return the names of the migrations in their order."""
    return sorted(file.stem for file in Path(FOLDER, engine).glob("*.sql"))


def statements(engine: Engine, name: str) -> list[str]:
    """Return the statements of a migration.

    In the file of a migration, each statement ends with a semicolon at the end of a line, and comments are
    whole lines.
    """
    lines = Path(FOLDER, engine, f"{name}.sql").read_text(encoding="utf-8").splitlines()
    script = "\n".join(line for line in lines if not line.startswith("--"))
    return [statement.strip() for statement in f"{script}\n".split(";\n") if statement.strip()]


class Tables(ABC):
    """Creates the tables of one database, brings them up to date, or refuses the database.

    Each engine implements the record of the applied migrations, the lock, and how a migration runs.
    """

    engine: ClassVar[Engine]

    @abstractmethod
    def names(self) -> Collection[str]:
        """Return the names of all tables and views."""

    @abstractmethod
    def objects(self) -> Collection[str]:
        """Return the names of all tables, indexes, views and triggers."""

    @abstractmethod
    def applied(self) -> Collection[str]:
        """Return the names of the applied migrations; an empty list if the database has no record of them."""

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Run the block in a transaction while nobody else changes the tables. After an error, roll back."""

    @abstractmethod
    def apply(self, name: str, statements: list[str]) -> None:
        """Run the statements of a migration, and add its name to the record."""

    def bring_up_to_date(self) -> None:
        """Apply all migrations that the database lacks, in one transaction.

        Raises the errors of `pending`.
        """
        if not self.pending():
            return
        with self.locked():
            # This checks again, because another process may have applied migrations before we got the lock.
            self.apply_pending()

    def apply_pending(self) -> None:
        """Apply the missing migrations inside a block of `locked`."""
        pending = self.pending()
        if pending and self.applied():
            names_pending = ", ".join(pending)
            log.warning(
                "bringing the ledger up to date, which takes minutes if it is large: %s", names_pending
            )
        for name in pending:
            self.apply(name, statements(self.engine, name))

    def pending(self) -> list[str]:
        """Return the names of the migrations that the database lacks, in their order.

        This changes nothing. Raises StorageUnavailable for a database of another program or of a newer
        version, and for a ledger that is older than the baseline.
        """
        names_applied = self.applied()
        if not names_applied:
            self.require_no_others()
        before_baseline = {name for name in names_applied if name.startswith(_BEFORE_BASELINE)}
        if before_baseline and BASELINE not in names_applied:
            raise StorageUnavailable(TOO_OLD)
        names_known = names(self.engine)
        unknown = sorted(set(names_applied) - before_baseline - set(names_known))
        if unknown:
            raise StorageUnavailable(
                f"it was written by a newer version of the ledger ({', '.join(unknown)})"
            )
        return [name for name in names_known if name not in names_applied]

    def require_ledger(self, *, up_to_date: bool = True) -> None:
        """Raise StorageUnavailable if the database is not a ledger, and the errors of `pending`.

        With `up_to_date` this also refuses a ledger that lacks migrations of this version.
        """
        pending = self.pending()
        if not self.applied():
            raise StorageUnavailable("it is not a ledger")
        if pending and up_to_date:
            raise StorageUnavailable(NOT_UP_TO_DATE)

    def require_no_others(self) -> None:
        """Raise StorageUnavailable if the database contains tables but no ledger. This changes nothing."""
        if self.applied():
            return
        tables = sorted(self.names())
        if len(tables) > _NAMED_MAX:
            tables[_NAMED_MAX:] = ["…"]
        if tables:
            raise StorageUnavailable(
                f"it contains tables of another program ({', '.join(tables)}); give the ledger a database of"
                " its own"
            )

    def require_all_there(self) -> None:
        """Raise StorageUnavailable if a table, index, view or trigger is missing from an up-to-date database.

        A process calls this at each start. For the audit, `schema_differences` also compares the definitions.
        """
        kinds: dict[str, str] = {}
        for name in names(self.engine):
            for statement in statements(self.engine, name):
                if match := _MADE.match(statement):
                    kinds[match[2]] = match[1].lower()
                elif match := _RENAMED.match(statement):
                    kinds[match[2]] = kinds.pop(match[1])
                elif match := _DROPPED.match(statement):
                    kinds.pop(match[1], None)
        _refuse(
            [f"the {kinds[name]} {name} is missing" for name in sorted(kinds.keys() - set(self.objects()))]
        )


def schema_differences(
    definitions: Mapping[Object, str], expected: Mapping[Object, str], refusing: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Compare the objects of a database; return the name of each wrong object, and a sentence about it.

    `definitions` contains the definitions of the objects in the database, and `expected` the definitions that
    the migrations make. Objects that the migrations do not make are allowed, with two exceptions: a trigger,
    because it can change written rows, and an object in `refusing`. `refusing` contains the indexes,
    constraints and tables that can make the database refuse a row: it maps each name to a description.
    """
    faults = [
        (
            name,
            f"the {kind} {name} "
            + ("differs from the ledger's definition" if (kind, name) in definitions else "is missing"),
        )
        for kind, name in sorted(expected)
        if definitions.get((kind, name)) != expected[kind, name]
    ]
    new_triggers = sorted(part for part in definitions if part[0] == "trigger" and part not in expected)
    faults += [(name, f"the trigger {name} does not belong to the ledger") for _, name in new_triggers]
    ours = {name for _, name in expected}
    return faults + [
        (name, f"{name} does not belong to the ledger, and may refuse its rows: it is {what}")
        for name, what in sorted(refusing.items())
        if name not in ours
    ]


def _refuse(faults: list[str]) -> None:
    if faults:
        more = f", and {len(faults) - _NAMED_MAX} more" if len(faults) > _NAMED_MAX else ""
        raise StorageUnavailable(
            f"somebody has changed its tables: {', '.join(faults[:_NAMED_MAX])}{more}; undo the change, or"
            " restore a backup"
        )
