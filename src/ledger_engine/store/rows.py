"""Records and rows: makes a record from a row, and inserts and changes rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from ledger_engine.core.records import JsonObject
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Row, Unit, Value
from ledger_engine.store.books import OF_TENANT

R = TypeVar("R", bound=JsonObject)


def reader(kind: type[R], **columns: str) -> Callable[[Row], R]:
    """Return the function that makes a record of class `kind` from a row.

    Each field comes from the column of the same name, unless `columns` names another column for the field. A
    bool is stored as 0 or 1, a list or a dict as JSON. The function is compiled from the names of the fields,
    as dataclasses compile `__init__`.
    """
    values = []
    for field in fields(kind):
        value = f"row[{columns.get(field.name, field.name)!r}]"
        type = str(field.type)  # a text, because annotations are not evaluated
        if type == "bool":
            value = f"bool({value})"
        elif type.startswith(("list[", "dict[")):
            absent = f"None if {value} is None else " if type.endswith("| None") else ""
            value = f"{absent}loads({value})"
        values.append(value)
    names: dict[str, Any] = {"kind": kind, "loads": json.loads}
    read: Callable[[Row], R] = eval(f"lambda row: kind({', '.join(values)})", names)
    return read


def short(column: str, letters: int) -> str:
    """Return SQL that selects a text column, but '' for a text of more than `letters` letters.

    Use this in a statement that reads many rows with a text that can be as large as a request. The caller
    then reads the longer texts one by one, until their total length reaches a limit (see `pages`).
    """
    return f"CASE WHEN length({column}) > {letters} THEN '' ELSE {column} END"


def any_of(values: Iterable[Value]) -> tuple[str, dict[str, Value]]:
    """Return the text for the brackets of `IN (…)`, such as `:value0, :value1`, and the parameters in it."""
    parameters = {f"value{number}": value for number, value in enumerate(values)}
    return ", ".join(f":{name}" for name in parameters), parameters


def insert(unit: Unit, table: str, values: Mapping[str, Value]) -> None:
    """Insert one row; `values` maps the names of the columns to their values."""
    unit.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES (:{', :'.join(values)})", values)


def update_row(
    unit: Unit, tenant: Tenant, table: str, id: str, where: str = "1 = 1", /, **values: Value
) -> Row | None:
    """Set columns of the tenant's row `id` to `values` and return the changed row.

    Return None if the tenant has no such row, or if the row does not match the condition `where`.
    """
    assignments = ", ".join(f"{column} = :{column}" for column in values)
    return unit.first(
        f"UPDATE {table} SET {assignments} WHERE id = :id AND {OF_TENANT} AND {where} RETURNING *",
        tenant.bind(id=id, **values),
    )
