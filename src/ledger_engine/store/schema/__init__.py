"""The tables of a ledger: a folder of SQL for each engine, in which each file is one migration.

The first one is the baseline, the tables of version 1.0. A released file is never changed: a change of the
tables is a new file of the same name in both folders.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

from ledger_engine.core.errors import StorageUnavailable

Engine = Literal["sqlite", "postgres"]
FOLDER = Path(__file__).parent
BASELINE = "001_baseline"
_BEFORE_BASELINE = "m0"  # the names of the migrations before version 1.0 begin so
NOT_UP_TO_DATE = "the database is not up to date; run `ledger-engine serve` on it once"
TOO_OLD = "it was written before version 1.0, and this version does not open such ledgers"
_NAMED_MAX = 3  # tables, or faults, in a message
_MADE = re.compile(r"CREATE (?:UNIQUE |UNLOGGED )?(TABLE|INDEX|VIEW|TRIGGER) (\w+)")
_RENAMED = re.compile(r"ALTER (?:TABLE|INDEX) (\w+) RENAME TO (\w+)")
_DROPPED = re.compile(r"DROP (?:TABLE|INDEX|VIEW|TRIGGER) (?:IF EXISTS )?(\w+)")

Object = tuple[str, str]  # of the database: its kind, such as "table" or "index", and its name


def names(engine: Engine) -> list[str]:
    """Return the names of the migrations in their order."""
    return sorted(file.stem for file in Path(FOLDER, engine).glob("*.sql"))


def statements(engine: Engine, name: str) -> list[str]:
    """Return the statements of a migration.

    In its file each statement ends with a semicolon at the end of a line, and a comment has lines of its own.
    """
    lines = Path(FOLDER, engine, f"{name}.sql").read_text(encoding="utf-8").splitlines()
    script = "\n".join(line for line in lines if not line.startswith("--"))
    return [statement.strip() for statement in f"{script}\n".split(";\n") if statement.strip()]


def pending(engine: Engine, applied: Collection[str] | None, tables: Collection[str]) -> list[str]:
    """Return the names of the migrations that a database lacks, in their order.

    `applied` are those it has a record of, None where it has no record. Raises StorageUnavailable for a
    database of another program or of a newer version, and for one that is older than the baseline.
    """
    if applied is None:
        require_no_others(tables)
        applied = ()
    if any(name.startswith(_BEFORE_BASELINE) for name in applied) and BASELINE not in applied:
        raise StorageUnavailable(TOO_OLD)
    known = names(engine)
    unknown = [
        name for name in sorted(applied) if name not in known and not name.startswith(_BEFORE_BASELINE)
    ]
    if unknown:
        raise StorageUnavailable(f"it was written by a newer version of the ledger ({', '.join(unknown)})")
    return [name for name in known if name not in applied]


def require_no_others(tables: Collection[str]) -> None:
    """Raise StorageUnavailable where there are tables, in a database that is not a ledger."""
    if tables:
        named = sorted(tables)
        if len(named) > _NAMED_MAX:
            named[_NAMED_MAX:] = ["…"]
        raise StorageUnavailable(
            f"it has tables of another program ({', '.join(named)}); give the ledger a database of its own"
        )


def require_all_there(engine: Engine, found: Collection[str]) -> None:
    """Raise StorageUnavailable unless all tables, indexes, views and triggers are among the names `found`.

    This is for each start. What they are is compared by `unlike_made`.
    """
    made: dict[str, str] = {}
    for name in names(engine):
        for statement in statements(engine, name):
            if match := _MADE.match(statement):
                made[match[2]] = match[1].lower()
            elif match := _RENAMED.match(statement):
                made[match[2]] = made.pop(match[1])
            elif match := _DROPPED.match(statement):
                made.pop(match[1], None)
    _refuse([f"the {made[name]} {name} is missing" for name in sorted(made.keys() - set(found))])


def unlike_made(
    found: Mapping[Object, str], made: Mapping[Object, str], refusing: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return each object that has another definition than it was made with: its name, and why.

    Further tables, indexes and views may be there, but no further trigger, because it may change what is
    written, and none of `refusing`: indexes and tables that may refuse it, each with what it is.
    """
    faults = [
        (
            name,
            f"the {kind} {name} is " + ("not as the ledger made it" if (kind, name) in found else "missing"),
        )
        for kind, name in sorted(made)
        if found.get((kind, name)) != made[kind, name]
    ]
    added = sorted(part for part in found if part[0] == "trigger" and part not in made)
    faults += [(name, f"the trigger {name} is not the ledger's") for _, name in added]
    ours = {name for _, name in made}
    return faults + [
        (name, f"{name} is not the ledger's, and may refuse what the ledger writes: it is {what}")
        for name, what in sorted(refusing.items())
        if name not in ours
    ]


def _refuse(faults: list[str]) -> None:
    if faults:
        more = f", and {len(faults) - _NAMED_MAX} more" if len(faults) > _NAMED_MAX else ""
        raise StorageUnavailable(
            f"somebody has changed its tables: {', '.join(faults[:_NAMED_MAX])}{more}; undo that, or restore"
            " a backup"
        )
