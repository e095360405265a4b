"""Makes JSON Schemas: from dataclasses for records, and with pydantic for bodies and queries."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic.json_schema import models_json_schema

from ledger_engine.core.records import Format, Moment, OneOf, Pattern
from ledger_engine.http.bodies import Body, Query
from ledger_engine.http.openapi.texts import meaning

Schema = dict[str, Any]
REFERENCE = "#/components/schemas/{model}"
_CURSORS = ("starting_after", "ending_before", "cursor")

MOMENT: Schema = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$",
}
_NULL: Schema = {"type": "null"}
_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    types.NoneType: _NULL,
    Any: {},
    Moment: MOMENT,
}


def reference(name: str) -> Schema:
    """Return a reference to the schema of this name."""
    return {"$ref": REFERENCE.format(model=name)}


class RecordSchemas:
    """The schemas of records by name; `refer` adds the schema of a record when the schema is first used."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def refer(self, kind: type[Any]) -> Schema:
        """Return a reference to the schema of `kind`, adding the schema if it is new."""
        if kind.__name__ not in self.components:
            # A placeholder: if the record refers to itself, the inner call finds the name and returns.
            self.components[kind.__name__] = {}
            self.components[kind.__name__] = self.object_of(kind)
        return reference(kind.__name__)

    def page_of(self, kind: type[Any]) -> Schema:
        """Return a reference to the list envelope of `kind` (docs/interface.md#list-envelope).

        The envelope gets a name, such as `AccountList`, because client generators would otherwise invent a
        name for each list.
        """
        members: dict[str, Schema] = {
            "data": {"type": "array", "items": self.refer(kind)},
            "has_more": {"type": "boolean"},
            "next_cursor": {**self.cursor_of(kind), "type": ["string", "null"]},
        }
        name = f"{kind.__name__}List"
        self.components[name] = closed_object(members)
        return reference(name)

    def field_of(self, kind: type[Any], name: str) -> Schema:
        """Return the schema of one field of `kind`."""
        return self._value(get_type_hints(kind, include_extras=True)[name])

    def cursor_of(self, kind: type[Any]) -> Schema:
        """Return the schema of the cursors of a list: an object's id, or its code if it has no id."""
        return self.field_of(kind, "id" if "id" in get_type_hints(kind) else "code")

    def object_of(self, kind: type[Any]) -> Schema:
        """Return the schema of `kind` itself, and not a reference to it."""
        hints = get_type_hints(kind, include_extras=True)
        left_out: set[str] = set()
        if is_dataclass(kind):
            hints = {field.name: hints[field.name] for field in fields(kind)}
            # A field with a default is missing from some records, so it is not required.
            left_out = {field.name for field in fields(kind) if field.default is not MISSING}
        members = {name: self._value(hint) for name, hint in hints.items()}
        if hasattr(kind, "OBJECT"):
            members = {"id": members["id"], "object": {"type": "string", "const": kind.OBJECT}, **members}
        schema = closed_object(members)
        schema["required"] = [name for name in members if name not in left_out]
        # If a class has no docstring, `dataclass` or `TypedDict` generates a docstring, which describes
        # nothing. A generated docstring does not become the description of the schema.
        if kind.__doc__ and not kind.__doc__.startswith((kind.__name__ + "(", "dict(")):
            # Python's None is null in JSON.
            schema["description"] = re.sub(r"\bNone\b", "null", " ".join(kind.__doc__.split()))
        return schema

    def _value(self, hint: Any) -> Schema:
        if hint in _PLAIN:
            return dict(_PLAIN[hint])
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            schema = self._value(arguments[0])
            for note in arguments[1:]:
                if isinstance(note, OneOf):
                    schema["enum"] = list(note.values)
                elif isinstance(note, Format):
                    schema["format"] = note.name
                elif isinstance(note, Pattern):
                    schema["pattern"] = note.text
            return schema
        if origin is Literal and len(arguments) == 1:
            return {"type": "string", "const": arguments[0]}
        if origin is Literal:
            return {"type": "string", "enum": list(arguments)}
        if origin in (Union, types.UnionType):
            return with_null({"anyOf": [self._value(choice) for choice in arguments]})
        if origin is list:
            return {"type": "array", "items": self._value(arguments[0])}
        if origin is not None and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self._value(arguments[1]) or True}
        if hasattr(hint, "OBJECT"):
            return self.refer(hint)
        if is_dataclass(hint) or is_typeddict(hint):
            return self.object_of(hint)
        raise TypeError(f"no schema is known for {hint!r}")


def with_null(schema: Schema) -> Schema:
    """Return the schema; replace an `anyOf` of one type and null by `type` with two types.

    People and tools read a schema such as `{"type": ["string", "null"]}` more easily than an `anyOf`.
    """
    choices = [choice for choice in schema.get("anyOf", []) if choice != _NULL]
    if (
        len(choices) != 1
        or len(choices) == len(schema["anyOf"])
        or not isinstance(choices[0].get("type"), str)
    ):
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    schema_or_null = {**rest, **choices[0], "type": [choices[0]["type"], "null"]}
    return (
        {**schema_or_null, "enum": [*schema_or_null["enum"], None]}
        if "enum" in schema_or_null
        else schema_or_null
    )


def of_bodies(models: list[type[Body]]) -> dict[str, Schema]:
    """Return the schemas of request bodies, and of the models within them, by name.

    Defaults are left out, because client generators treat a field with a default as required, or fail on a
    default of null. The description of a field explains what the server does if the field is not sent.
    """
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=REFERENCE)
    components: dict[str, Schema] = definitions["$defs"]
    tidy = {name: _tidy(schema) for name, schema in components.items()}
    for schema in tidy.values():
        for member in schema.get("properties", {}).values():
            member.pop("default", None)
    return tidy


def of_query(model: type[Query], operation: str, cursor: Schema | None) -> list[Schema]:
    """Return the query parameters of an operation, for instance of `GET /v1/accounts`.

    `cursor` is the schema of the list's cursors; None if the operation returns no list with cursors.
    """
    schema = _tidy(model.model_json_schema(by_alias=True))
    required_names = schema.get("required", [])
    parameters = []
    for name, member in schema.get("properties", {}).items():
        parameter = {
            "name": name,
            "in": "query",
            "required": name in required_names,
            "schema": cursor if cursor and name in _CURSORS else _without_null(member),
        }
        description = meaning(operation, name)
        parameters.append(parameter if description is None else {**parameter, "description": description})
    return parameters


def _without_null(schema: Schema) -> Schema:
    """Return a parameter's schema without null. A query parameter can be left out, but cannot be null."""
    if isinstance(schema.get("type"), list):
        schema = {**schema, "type": schema["type"][0]}
        if "enum" in schema:
            schema["enum"] = [value for value in schema["enum"] if value is not None]
    return {name: value for name, value in schema.items() if name != "default" or value is not None}


def _tidy(schema: Any) -> Any:
    """Return the schema without the titles that pydantic generates, and with `with_null` applied."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    members = {name: item for name, item in schema.items() if name != "title" or not isinstance(item, str)}
    return with_null({name: _tidy(item) for name, item in members.items()})


def json_content(schema: Schema, example: Any) -> dict[str, Any]:
    """Return the content of a JSON body: the schema, and the example unless it is None."""
    return {"application/json": with_example(schema, example)}


def with_example(schema: Schema, example: Any) -> dict[str, Any]:
    """Return the content of one media type: the schema, and the example unless it is None."""
    return {"schema": schema, **({} if example is None else {"examples": {"Example": {"value": example}}})}


def closed_object(fields: dict[str, Schema]) -> Schema:
    """Return the schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
