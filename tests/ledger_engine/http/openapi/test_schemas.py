from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypedDict

import pytest

from ledger_engine.core.records import Format, Moment, OneOf, Pattern
from ledger_engine.http.bodies import Body, Query
from ledger_engine.http.openapi.schemas import MOMENT, RecordSchemas, of_bodies, of_query, with_null


class Line(TypedDict):
    text: str


@dataclass(slots=True)
class Thing:
    """What there is
    of it."""

    OBJECT: ClassVar[str] = "thing"

    name: str
    id: str
    kind: Annotated[str, OneOf("a", "b")] | None
    made: Moment
    gone: Moment | None
    lines: list[Line]
    pairs: dict[str, str]
    anything: dict[str, Any]
    mode: Literal["test", "live"]
    share: float


@dataclass(slots=True)
class Bag:
    thing: Thing
    things: list[Thing]


@dataclass(slots=True)
class Odd:
    value: set[str]


def fields(kind: type[Any]) -> dict[str, Any]:
    records = RecordSchemas()
    records.refer(kind)
    properties: dict[str, Any] = records.components[kind.__name__]["properties"]
    return properties


REFERENCE = {"$ref": "#/components/schemas/Thing"}


def test_an_object_begins_with_its_id_and_its_kind_and_has_every_field_and_no_other() -> None:
    records = RecordSchemas()
    assert records.refer(Thing) == REFERENCE
    schema = records.components["Thing"]
    assert list(schema["properties"])[:3] == schema["required"][:3] == ["id", "object", "name"]
    assert schema["required"] == list(schema["properties"])
    assert schema["additionalProperties"] is False
    assert schema["description"] == "What there is of it."


def test_each_field_has_the_schema_of_its_type() -> None:
    line = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    assert fields(Thing) == {
        "id": {"type": "string"},
        "object": {"type": "string", "const": "thing"},
        "name": {"type": "string"},
        "kind": {"type": ["string", "null"], "enum": ["a", "b", None]},
        "made": MOMENT,
        "gone": {**MOMENT, "type": ["string", "null"]},
        "lines": {"type": "array", "items": {**line, "additionalProperties": False}},
        "pairs": {"type": "object", "additionalProperties": {"type": "string"}},
        "anything": {"type": "object", "additionalProperties": True},
        "mode": {"type": "string", "enum": ["test", "live"]},
        "share": {"type": "number"},
    }
    assert fields(Bag) == {"thing": REFERENCE, "things": {"type": "array", "items": REFERENCE}}


@dataclass(slots=True)
class Dated:
    day: Annotated[str, Format("date"), "for readers of the code"] | None
    note: str | None = None


def test_a_text_has_the_format_that_its_type_notes_and_a_field_with_a_default_may_be_missing() -> None:
    records = RecordSchemas()
    records.refer(Dated)
    assert records.components["Dated"]["properties"]["day"] == {"type": ["string", "null"], "format": "date"}
    assert records.components["Dated"]["required"] == ["day"]


@dataclass(slots=True)
class Marked:
    OBJECT: ClassVar[str] = "marked"

    id: Annotated[str, Pattern("^mrk_[0-9]+$")]
    parent: Annotated[str, Pattern("^mrk_[0-9]+$")] | None
    words: list[Annotated[str, OneOf("a", "b")]]


def test_a_text_has_the_pattern_that_its_type_notes_and_so_has_the_cursor_of_its_list() -> None:
    records = RecordSchemas()
    records.page_of(Marked)
    marked = records.components["Marked"]["properties"]
    assert marked["id"] == {"type": "string", "pattern": "^mrk_[0-9]+$"}
    assert marked["parent"] == {"type": ["string", "null"], "pattern": "^mrk_[0-9]+$"}
    assert marked["words"]["items"] == {"type": "string", "enum": ["a", "b"]}
    cursor = records.components["MarkedList"]["properties"]["next_cursor"]
    assert cursor == {"type": ["string", "null"], "pattern": "^mrk_[0-9]+$"}


class Listed(Query):
    cursor: str | None = None
    name: str | None = None


def test_the_cursor_of_a_list_is_the_id_of_one_of_its_objects() -> None:
    cursor, name = of_query(Listed, "GET /marked", {"type": "string", "pattern": "^mrk_[0-9]+$"})
    assert cursor["schema"] == {"type": "string", "pattern": "^mrk_[0-9]+$"}
    assert name["schema"] == {"type": "string"}


def test_a_type_that_json_lacks_has_no_schema() -> None:
    with pytest.raises(TypeError, match="no schema"):
        RecordSchemas().refer(Odd)


def test_a_choice_of_several_stays_one() -> None:
    several = {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}
    assert with_null(several) == several
    reference = {"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}
    assert with_null(reference) == reference


class Make(Body):
    title: str
    size: int | None = None


class Filter(Query):
    limit: int = 20
    kind: Literal["a", "b"] | None = None


def test_a_body_has_no_titles_but_its_own_fields() -> None:
    made = of_bodies([Make])["Make"]
    assert made["properties"]["title"] == {"type": "string"}
    assert made["properties"]["size"] == {"type": ["integer", "null"]}
    assert "title" not in made


def test_a_parameter_is_never_null() -> None:
    limit, kind = of_query(Filter, "GET /things", None)
    assert (limit["name"], limit["in"], limit["required"]) == ("limit", "query", False)
    assert limit["schema"] == {"type": "integer", "default": 20}
    assert kind["schema"] == {"type": "string", "enum": ["a", "b"]}
