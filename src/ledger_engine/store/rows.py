"""Records and rows: how a record is read from a row of its table, and how a row is inserted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from ledger_engine.core.records import Shown
from ledger_engine.store import Row, Unit, Value

R = TypeVar("R", bound=Shown)


def reader(kind: type[R], **columns: str) -> Callable[[Row], R]:
    """Return the function that makes a record of class `kind` from a row.

    Each field is in the column of its name, or in the one that `columns` has for it. A bool is stored as 0 or
    1, a list or a dict as JSON. The function is compiled from the names of the fields, as those of a
    dataclass are.
    """
    values = []
    for field in fields(kind):
        value = f"row[{columns.get(field.name, field.name)!r}]"
        type = str(field.type)  # its text, as annotations are not evaluated
        if type == "bool":
            value = f"bool({value})"
        elif type.startswith(("list[", "dict[")):
            absent = f"None if {value} is None else " if type.endswith("| None") else ""
            value = f"{absent}loads({value})"
        values.append(value)
    names: dict[str, Any] = {"kind": kind, "loads": json.loads}
    read: Callable[[Row], R] = eval(f"lambda row: kind({', '.join(values)})", names)
    return read


def insert(unit: Unit, table: str, values: Mapping[str, Value]) -> None:
    """Insert one row, with a value for each of these columns."""
    unit.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES (:{', :'.join(values)})", values)
