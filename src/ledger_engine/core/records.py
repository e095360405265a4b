"""How records are shown outside: the JSON object of every answer and every event."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import cache
from operator import attrgetter
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


@dataclasses.dataclass(frozen=True, slots=True)
class _Shape:
    """How the objects of one class are shown: what comes first, all fields, and which of them are times."""

    lead: dict[str, Any]
    names: list[str]
    moments: list[str]
    values: Callable[[Shown], tuple[Any, ...]]


@cache
def _shape(kind: type[Shown]) -> _Shape:
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return _Shape(
        lead={"id": "", "object": kind.OBJECT} if hasattr(kind, "OBJECT") else {},
        names=names,
        moments=[name for name in names if hints[name] in (Moment, Moment | None)],
        # With one name attrgetter returns the value itself, not a tuple of one.
        values=attrgetter(*names)
        if len(names) > 1
        else lambda shown: tuple(getattr(shown, n) for n in names),
    )


def as_json(shown: Shown) -> dict[str, Any]:
    """Return the JSON object `{"id", "object", …}` with every field; times are ISO 8601 text.

    See docs/decisions.md#conventions-times.
    """
    shape = _shape(type(shown))
    result = dict(shape.lead)
    result.update(zip(shape.names, shape.values(shown), strict=True))
    for name in shape.moments:
        moment = result[name]
        if moment is not None:
            result[name] = iso(moment)
    return result


def dumps(value: object) -> str:
    """Return compact JSON text; characters beyond ASCII are not escaped."""
    return _encode(value)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
