"""How records are shown outside: the JSON object of every answer and every event."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, NewType, Protocol, get_type_hints

from ledger_engine.core.clock import iso

Moment = NewType("Moment", int)  # milliseconds since 1970-01-01 UTC; shown as ISO 8601


class OneOf:
    """The values of a text field, as a type annotation: `Annotated[str, OneOf("credit", "debit")]`."""

    def __init__(self, *values: str) -> None:
        self.values = values


class Format:
    """The JSON Schema format of a text field, as a type annotation: `Annotated[str, Format("date")]`."""

    def __init__(self, name: str) -> None:
        self.name = name


class Shown(Protocol):
    """A dataclass that is shown as a JSON object: its fields in their order, under their names."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Record(Shown, Protocol):
    """A stored object: it has an id and names its kind, for instance `account`."""

    OBJECT: ClassVar[str]
    id: str


@cache
def _shower(kind: type[Shown]) -> Callable[[Any], dict[str, Any]]:
    """Return the function that shows the objects of one class.

    It is compiled from the names of the fields, as those of a dataclass are: it takes a third of the time of
    going through them for each object.
    """
    hints = get_type_hints(kind)
    values = {
        field.name: f"moment(shown.{field.name})"
        if hints[field.name] in (Moment, Moment | None)
        else f"shown.{field.name}"
        for field in dataclasses.fields(kind)
    }
    if hasattr(kind, "OBJECT"):
        values = {"id": values.get("id", "''"), "object": repr(kind.OBJECT)} | values
    members = ", ".join(f"{name!r}: {value}" for name, value in values.items())
    shower: Callable[[Any], dict[str, Any]] = eval(f"lambda shown: {{{members}}}", {"moment": _moment})
    return shower


def _moment(value: Moment | None) -> str | None:
    return None if value is None else iso(value)


def as_json(shown: Shown) -> dict[str, Any]:
    """Return the JSON object `{"id", "object", …}` with every field; times are ISO 8601 text.

    See docs/decisions.md#conventions-times.
    """
    return _shower(type(shown))(shown)


def dumps(value: object) -> str:
    """Return compact JSON text; characters beyond ASCII are not escaped."""
    return _encode(value)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
