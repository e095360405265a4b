"""How a record looks outside: the JSON object of every answer and every event."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from typing import Any, ClassVar, NewType, Protocol, get_type_hints

from ledger_engine.clock import iso

Moment = NewType("Moment", int)  # milliseconds since 1970-01-01 UTC; shown as ISO 8601


class OneOf:
    """The texts a field can hold, noted in its type: `Annotated[str, OneOf("credit", "debit")]`."""

    def __init__(self, *values: str) -> None:
        self.values = values


class Shown(Protocol):
    """A dataclass whose fields are shown in their order under their names."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Record(Shown, Protocol):
    """A stored object: it has an id and names its kind, for instance `account`."""

    OBJECT: ClassVar[str]
    id: str


@cache
def _shape(kind: type[Shown]) -> tuple[dict[str, str], list[tuple[str, bool]]]:
    """What is shown first of every object of the kind, and its fields with whether each is a time."""
    hints = get_type_hints(kind)
    moments = (Moment, Moment | None)
    lead = {"id": "", "object": kind.OBJECT} if hasattr(kind, "OBJECT") else {}
    return lead, [(field.name, hints[field.name] in moments) for field in dataclasses.fields(kind)]


def as_json(shown: Shown) -> dict[str, Any]:
    """`{"id", "object", …}`: every field, times as ISO 8601 text (decisions.md 1)."""
    lead, fields = _shape(type(shown))
    result: dict[str, Any] = dict(lead)
    for name, is_moment in fields:
        value = getattr(shown, name)
        result[name] = iso(value) if is_moment and value is not None else value
    return result


def dumps(value: object) -> str:
    """Compact JSON text; characters beyond ASCII stay themselves."""
    return _encode(value)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
