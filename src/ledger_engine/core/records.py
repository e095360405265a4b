"""Writes records as JSON objects, for answers and events."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import cache
from json.encoder import encode_basestring
from types import NoneType
from typing import Any, ClassVar, NewType, Protocol, get_args, get_type_hints

from ledger_engine.core.clock import iso

Moment = NewType("Moment", int)  # milliseconds since 1970-01-01 UTC; written as ISO 8601
JsonText = NewType("JsonText", str)  # the JSON text of an object, as `as_text` returns it


class OneOf:
    """The values of a text field, as a type annotation: `Annotated[str, OneOf("credit", "debit")]`."""

    def __init__(self, *values: str) -> None:
        self.values = values


class Format:
    """The JSON Schema format of a text field, as a type annotation: `Annotated[str, Format("date")]`."""

    def __init__(self, name: str) -> None:
        self.name = name


class Pattern:
    """The regular expression of a text field in the form of JSON Schema, as a type annotation."""

    def __init__(self, text: str) -> None:
        self.text = text


class JsonObject(Protocol):
    """A dataclass that is written as a JSON object with the same fields in the same order."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Record(JsonObject, Protocol):
    """A stored object, with an id and the name of its kind, for instance `account`."""

    OBJECT: ClassVar[str]
    id: str


def as_text(value: JsonObject) -> str:
    """Return the JSON text of an object, with every field; times are ISO 8601 text.

    The text of a `Record` begins with its `id` and, in the member `object`, the name of its kind. See
    docs/decisions.md#conventions-times.
    """
    return _writer(type(value))(value)


def as_json(record: JsonObject) -> dict[str, Any]:
    """Return a record as a JSON object, equal to the text of `as_text`."""
    value: dict[str, Any] = json.loads(as_text(record))
    return value


def dumps(value: object) -> str:
    """Return compact JSON text of a value, which may contain records."""
    return _encode(value)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=as_json).encode


def _moment(value: Moment) -> str:
    return f'"{iso(value)}"'


# For each type of field, the Python expression that writes a value of the type; `{}` stands for the value.
# `dumps` writes a value of any other type.
_TEXTS: dict[object, str] = {
    Moment: "_moment({})",
    str: "_text({})",
    int: "{}",
    bool: "'true' if {} else 'false'",
}
_NAMES = {"_moment": _moment, "_text": encode_basestring, "_dumps": dumps}


@cache
def _writer(kind: type[JsonObject]) -> Callable[[Any], str]:
    """Return the function that writes the objects of one class."""
    return _compiled("value", "value.", kind)


def values_writer(kind: type[JsonObject]) -> Callable[..., str]:
    """Return a function that writes an object. Its arguments are the object's field values, in order."""
    return _compiled(", ".join(field.name for field in dataclasses.fields(kind)), "", kind)


def _compiled(parameters: str, prefix: str, kind: type[JsonObject]) -> Callable[..., str]:
    """Return a compiled function with these `parameters` that writes an object of the class `kind`.

    The function is one f-string, made from the names of the fields, as `dataclass` makes its methods. The
    function takes half the time that making and writing a dict takes. `prefix` precedes each name in the
    f-string: `value.` if the parameter is the object `value`, empty if the parameters are the fields.
    """
    hints = get_type_hints(kind)
    values = {
        field.name: f"{{{_text_of(prefix + field.name, hints[field.name])}}}"
        for field in dataclasses.fields(kind)
    }
    if hasattr(kind, "OBJECT"):
        values = {"id": values.get("id", '""'), "object": f'"{kind.OBJECT}"'} | values
    members = ",".join(f'"{name}":{value}' for name, value in values.items())
    writer: Callable[..., str] = eval(f"lambda {parameters}: f'''{{{{{members}}}}}'''", _NAMES)
    return writer


def _text_of(value: str, kind: object) -> str:
    """Return the Python expression that writes a value of the type `kind`.

    `value` is the expression for the value itself, such as `value.id`.
    """
    for plain, text in _TEXTS.items():
        if kind == plain:
            return text.format(value)
        if set(get_args(kind)) == {plain, NoneType}:
            return f"'null' if {value} is None else {text.format(value)}"
    return f"_dumps({value})"
