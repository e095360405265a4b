"""Bodies are JSON objects, strictly read (docs/decisions.md#conventions-strict)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.http.app import RESOURCES
from ledger_engine.http.bodies import Body, NoBody, Query, parse_body, parse_object, parse_query


class Inner(Body):
    count: int


class Sample(Body):
    name: str
    count: int = 0
    inner: Inner | None = None
    lines: list[Inner] = []
    tags: dict[str, str] = {}


class Filter(Query):
    limit: int = 20
    type: str | None = None


def refusal(parse: Callable[..., object], *given: object) -> tuple[str, str | None]:
    """Return the code and the parameter of the refusal to parse what is given."""
    with pytest.raises(InvalidRequest) as refused:
        parse(*given)
    return refused.value.code, refused.value.param


def nested(depth: int) -> bytes:
    """Return an object nested `depth` containers deep, including itself."""
    return b'{"name":' + b"[" * (depth - 1) + b"1" + b"]" * (depth - 1) + b"}"


# What is no JSON text, or one that two readers could understand differently.
UNREADABLE = {
    "empty": b"",
    "blank": b" \n",
    "array": b"[]",
    "string": b'"text"',
    "number": b"1",
    "null": b"null",
    "two objects": b"{} {}",
    "cut off": b'{"name": "T',
    "text after": b'{"name": "Till"} x',
    "single quotes": b"{'name': 'Till'}",
    "trailing comma": b'{"name": "Till",}',
    "comment": b'{"name": "Till" /* why */}',
    "duplicate key": b'{"name": "Till", "name": "Tall"}',
    "duplicate key, one escaped": b'{"name": "Till", "\\u006eame": "Tall"}',
    "duplicate key inside": b'{"name": "Till", "tags": {"a": "1", "a": "2"}}',
    "NaN": b'{"name": "Till", "count": NaN}',
    "Infinity": b'{"name": "Till", "count": Infinity}',
    "-Infinity": b'{"name": "Till", "count": -Infinity}',
    "1e400": b'{"name": "Till", "count": 1e400}',
    "-1e400": b'{"name": "Till", "count": -1e400}',
    "1e-400": b'{"name": "Till", "count": 1e-400}',
    "an exponent beyond all bounds": b'{"name": "Till", "count": 1e-99999999999999999999}',
    "more digits than are kept": b'{"name": "Till", "count": 0.1000000000000000000001}',
    "10^5000": b'{"name": "Till", "count": 1' + b"0" * 5000 + b"}",
    "leading zero": b'{"name": "Till", "count": 07}',
    "plus": b'{"name": "Till", "count": +7}',
    "hexadecimal": b'{"name": "Till", "count": 0x7}',
    "bad UTF-8": b'{"name": "Till \xff"}',
    "overlong UTF-8": b'{"name": "Till \xc0\xaf"}',
    "surrogate in UTF-8": b'{"name": "Till \xed\xa0\x80"}',
    "UTF-8 cut off": b'{"name": "Till \xe2\x98"}',
    "byte order mark": b'\xef\xbb\xbf{"name": "Till"}',
    "UTF-16": '{"name": "Till"}'.encode("utf-16"),
    "lone high surrogate": b'{"name": "Till \\ud83d"}',
    "lone low surrogate": b'{"name": "Till \\ude00"}',
    "surrogates the wrong way round": b'{"name": "Till \\ude00\\ud83d"}',
    "lone surrogate in a key": b'{"name": "Till", "tags": {"\\ud83d": "1"}}',
    "lone surrogate deep inside": b'{"name": "Till", "lines": [{"count": ["\\ud83d"]}]}',
    "NUL": b'{"name": "Till \\u0000"}',
    "NUL in a key": b'{"name": "Till", "tags": {"\\u0000": "1"}}',
    "raw NUL": b'{"name": "Till \x00"}',
    "raw line break": b'{"name": "Till\n"}',
    "33 deep": nested(33),
    "900 deep": nested(900),
    "30,000 deep": nested(30_000),
    "30,000 objects deep": b'{"a":' * 30_000,
    "200,000 deep": b"[" * 200_000,
}

# JSON, but not what the model says; with the code and the parameter that is named.
NOT_THE_MODEL = {
    "missing": (b"{}", "missing_field", "name"),
    "unknown": (b'{"name": "Till", "colour": "red"}', "unknown_field", "colour"),
    "unknown inside": (b'{"name": "Till", "inner": {"count": 1, "x": 1}}', "unknown_field", "inner.x"),
    "missing inside": (b'{"name": "Till", "lines": [{"count": 1}, {}]}', "missing_field", "lines.1.count"),
    "null": (b'{"name": null}', "invalid_value", "name"),
    "number for text": (b'{"name": 5}', "invalid_value", "name"),
    "1.0": (b'{"name": "Till", "count": 1.0}', "invalid_value", "count"),
    "1.5": (b'{"name": "Till", "count": 1.5}', "invalid_value", "count"),
    "1e2": (b'{"name": "Till", "count": 1e2}', "invalid_value", "count"),
    "true": (b'{"name": "Till", "count": true}', "invalid_value", "count"),
    "text for a number": (b'{"name": "Till", "count": "5"}', "invalid_value", "count"),
    "object for a number": (b'{"name": "Till", "count": {}}', "invalid_value", "count"),
    "array for an object": (b'{"name": "Till", "inner": [1]}', "invalid_value", "inner"),
    "object for an array": (b'{"name": "Till", "lines": {"0": 1}}', "invalid_value", "lines"),
    "number in a map of text": (b'{"name": "Till", "tags": {"a": 1}}', "invalid_value", "tags.a"),
}


@pytest.mark.parametrize(
    ("raw", "code", "param"),
    [
        *[pytest.param(raw, "invalid_json", None, id=name) for name, raw in UNREADABLE.items()],
        *[pytest.param(*row, id=name) for name, row in NOT_THE_MODEL.items()],
    ],
)
def test_a_body_is_refused_unless_it_is_a_strict_json_object_and_the_first_field_at_fault_is_named(
    raw: bytes, code: str, param: str | None
) -> None:
    assert refusal(parse_body, Sample, raw, "application/json") == (code, param)


def test_a_good_body_is_read() -> None:
    raw = b'{"name": "Caf\xc3\xa9 \\u2615 \\ud83d\\ude00", "count": -0,'
    raw += b' "lines": [{"count": 7}], "tags": {"a": ""}}'
    body = parse_body(Sample, raw, None)
    assert (body.name, body.count, body.lines[0].count, body.tags) == ("Café ☕ 😀", 0, 7, {"a": ""})


def test_exactly_32_levels_are_read() -> None:
    read: object = parse_object(nested(32))
    depth = 0
    while isinstance(read, (dict, list)):
        read = next(iter(read.values() if isinstance(read, dict) else read))
        depth += 1
    assert depth == 32


@pytest.mark.parametrize(
    "last", ['{"a": 1, "a": 1}', '{"a": {"b": 1, "b": 2}}', '[[{"a": 1, "\\u0061": 2}]]']
)
def test_a_field_that_occurs_twice_is_refused_in_a_large_body_too(last: str) -> None:
    raw = '{"items": [' + '{"a": "x"},' * 40 + last + "]}"
    with pytest.raises(InvalidRequest, match="a field occurs twice"):
        parse_object(raw.encode())


def test_colons_in_the_strings_of_a_large_body_are_read() -> None:
    given = {"items": [{"a": "x:y", "b:": number, "c": ":"} for number in range(40)]}
    assert parse_object(json.dumps(given).encode()) == given


def test_many_containers_beside_each_other_are_not_deep() -> None:
    raw = json.dumps({"lines": [[{}] for _ in range(1000)], "text": "[[[[{{{{" * 20}).encode()
    assert len(parse_object(raw)["lines"]) == 1000


@pytest.mark.parametrize("type", [None, "application/json", "Application/JSON ; charset=utf-8"])
def test_an_absent_content_type_is_taken_as_json(type: str | None) -> None:
    assert parse_body(Sample, b'{"name": "Till"}', type).name == "Till"


@pytest.mark.parametrize(
    "type", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "text/json", "json"]
)
def test_another_content_type_is_refused(type: str) -> None:
    refused = refusal(parse_body, Sample, b'{"name": "Till"}', type)
    assert refused == ("unsupported_content_type", "Content-Type")


def test_where_no_body_is_due_an_empty_object_will_do() -> None:
    parse_body(NoBody, b"{}", None)
    assert refusal(parse_body, NoBody, b'{"amount": 5}', None) == ("unknown_field", "amount")


def test_a_query_is_read_as_text() -> None:
    query = parse_query(Filter, b"limit=5&type=a%20b+c%C3%A9")
    assert (query.limit, query.type) == (5, "a b cé")
    assert parse_query(Filter, b"").limit == 20


@pytest.mark.parametrize(
    ("raw", "code", "param"),
    [
        (b"colour=red", "unknown_field", "colour"),
        (b"limit", "invalid_value", "limit"),
        (b"limit=", "invalid_value", "limit"),
        (b"limit=five", "invalid_value", "limit"),
        (b"limit=1.5", "invalid_value", "limit"),
        (b"limit=5&limit=5", "invalid_value", "limit"),
        (b"limit=5&%6Cimit=6", "invalid_value", "limit"),
        (b"type=%00", "invalid_value", "type"),
        (b"type=%FF", "invalid_value", None),
    ],
)
def test_a_query_at_fault_is_refused(raw: bytes, code: str, param: str | None) -> None:
    assert refusal(parse_query, Filter, raw) == (code, param)


class Ruled(Body):
    word: Annotated[str, Field(min_length=2, max_length=3)] = "abc"
    few: Annotated[list[int], Field(min_length=1, max_length=2)] = [1]
    number: Annotated[int, Field(ge=1, le=9)] = 1
    share: Annotated[float, Field(ge=0)] = 0
    flag: bool = True
    tags: dict[str, str] = {}
    plan: Literal["free", "pro", "enterprise"] = "free"
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"word": 5}, "word must be a string."),
        ({"word": "a"}, "word must have at least 2 characters."),
        ({"word": "abcd"}, "word must have at most 3 characters."),
        ({"few": {}}, "few must be an array."),
        ({"few": []}, "few must have at least 1 items."),
        ({"few": [1, 2, 3]}, "few must have at most 2 items."),
        ({"few": ["1"]}, "few.0 must be an integer."),
        ({"number": 1.5}, "number must be an integer."),
        ({"number": "1"}, "number must be an integer."),
        ({"number": 0}, "number must be at least 1."),
        ({"number": 10}, "number must be at most 9."),
        ({"share": "x"}, "share must be a number."),
        ({"share": -1}, "share must be at least 0."),
        ({"flag": 1}, "flag must be true or false."),
        ({"tags": []}, "tags must be an object."),
        ({"tags": {"a": 1}}, "tags.a must be a string."),
        ({"plan": "gold"}, "plan must be free, pro or enterprise."),
        ({"inner": 5}, "inner must be an object."),
    ],
)
def test_the_mistake_in_a_field_is_described_in_plain_words(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{re.escape(message)}$"):
        parse_body(Ruled, json.dumps(given).encode(), "application/json")


@pytest.mark.parametrize("limit", ["x", "1.5", ""])
def test_a_parameter_that_is_no_number_is_described_in_plain_words(limit: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^limit must be an integer\.$"):
        parse_query(Filter, f"limit={limit}".encode())


BODIES = [
    operation.body
    for resource in RESOURCES
    for operation in resource.operations
    if operation.body is not None
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_a_field_that_may_be_left_out_may_be_null(body: type[Body]) -> None:
    """In a change, which looks at what was sent alone, those that every object has may not."""
    for name, field in body.model_fields.items():
        if not field.is_required() and field.default_factory is None:
            assert TypeAdapter(field.rebuild_annotation()).validate_python(None) is None, name
