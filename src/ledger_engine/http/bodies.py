"""Parses request bodies and queries strictly (docs/decisions.md#conventions-strict)."""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8
from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Any, NoReturn, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema, ErrorDetails

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.ledger.accounts import KEY_MAX, PAIRS_MAX, VALUE_MAX

_GZIP = b"\x1f\x8b"  # the first two bytes of gzip's output
BODY_MAX = 1024 * 1024  # bytes (docs/interface.md#request-size)
DEPTH_MAX = 32  # levels of objects and arrays in a JSON body
FORM = "application/x-www-form-urlencoded"
PARAMETERS_MAX = 100  # parameters of a query or a form; no operation accepts that many


class Body(BaseModel):
    """A request body: undeclared fields are refused, and values are not converted to another type.

    An optional field also accepts null. In a body that creates an object, null has the same effect as
    leaving the field out. In a body that changes an object, null clears the field; so such a body refuses
    null for a field that every object must have.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class FormOrJson(Body):
    """A body that clients may send as JSON or as a form; the endpoints of OAuth take such bodies.

    Undeclared fields are ignored, and an empty field is treated as missing (RFC 6749, 3.2).
    """

    model_config = ConfigDict(extra="ignore")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema of the body as a form: no field is null, and no required field is empty."""
        reference = handler(core_schema)
        schema = handler.resolve_ref_schema(reference)
        for name, member in schema["properties"].items():
            if name in schema["required"]:
                member |= {} if "const" in member else {"minLength": 1}
            else:
                member |= member.pop("anyOf")[0]
        return reference

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in fields.items() if value not in ("", None)}


# These limits only appear in the OpenAPI document. `ledger.accounts.parse_metadata` enforces them.
Metadata = Annotated[
    dict[str, str],
    Field(
        json_schema_extra={
            "maxProperties": PAIRS_MAX,
            "propertyNames": {"minLength": 1, "maxLength": KEY_MAX},
            "additionalProperties": {"type": "string", "maxLength": VALUE_MAX},
        }
    ),
]


class Query(BaseModel):
    """The query parameters of an operation; undeclared parameters are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class NoBody(Body):
    """The body for an operation that takes no fields: no bytes at all, or the empty object `{}`.

    Any field is refused, because the operation would silently ignore the field.
    """


class NoQuery(Query):
    """The query of an operation without parameters."""


M = TypeVar("M", bound=BaseModel)


def parse_body(model: type[M], raw: bytes, content_type: str | None) -> M:
    """Return the body as an instance of `model`.

    Raises InvalidRequest, which names the first wrong field.
    """
    media_type = None if content_type is None else content_type.partition(";")[0].strip().lower()
    or_form = issubclass(model, FormOrJson)
    if or_form and media_type == FORM:
        return validate(model, parse_pairs(raw))
    if media_type not in (None, "application/json"):
        kinds = f"application/json or {FORM}" if or_form else "application/json"
        raise InvalidRequest("unsupported_content_type", f"Send the body as {kinds}.", "Content-Type")
    return validate(model, parse_object(raw))


def require_plain(content_encoding: str | None) -> None:
    """Raise InvalidRequest for a body with a `Content-Encoding`: the server decompresses no bodies."""
    if content_encoding is not None and content_encoding.strip().lower() not in ("", "identity"):
        raise InvalidRequest(
            "unsupported_content_type",
            "Send the body as it is, without a Content-Encoding.",
            "Content-Encoding",
        )


def parse_query(model: type[M], raw: bytes) -> M:
    """Return the query string as an instance of `model`.

    Raises InvalidRequest, which names the first wrong parameter.
    """
    return validate(model, parse_pairs(raw))


def parse_pairs(raw: bytes) -> dict[str, str]:
    """Return the parameters of a query string or a form, by name.

    Raises InvalidRequest if a parameter occurs twice.
    """
    parameters: dict[str, str] = {}
    for name, value in pairs_of(raw):
        if name in parameters:
            raise InvalidRequest("invalid_value", f"{name} is given more than once.", name)
        if "\x00" in value:
            raise InvalidRequest("invalid_value", f"{name} must not contain U+0000.", name)
        parameters[name] = value
    return parameters


def pairs_of(raw: bytes) -> list[tuple[str, str]]:
    """Return the names and values in a query string or a form, in the order in which they were sent.

    Raises InvalidRequest.
    """
    if not raw:
        return []
    try:
        return parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX)
    except UnicodeDecodeError:
        raise InvalidRequest("invalid_value", "The parameters are not UTF-8.") from None
    except ValueError:
        raise InvalidRequest("invalid_value", f"There are more than {PARAMETERS_MAX} parameters.") from None


def parse_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in `raw`.

    Raises InvalidRequest `invalid_json` for a text that is not JSON, or that
    docs/decisions.md#conventions-strict forbids.
    """
    try:
        text = raw.decode("utf-8")
        value = _decode_large(text) if text.count("{") + text.count("[") > DEPTH_MAX else _decode(text)
        if "\\u" in text:
            _check_characters(value)
    except UnicodeDecodeError:
        _refuse("it is compressed, and must be plain" if raw[:2] == _GZIP else "it is not UTF-8")
    except RecursionError:
        _refuse(f"it is nested deeper than {DEPTH_MAX}")
    except json.JSONDecodeError as error:
        if raw.startswith(BOM_UTF8):
            _refuse("it begins with a byte order mark, which JSON must not have")
        _refuse(f"{error.msg.removesuffix(' at')} at line {error.lineno}, column {error.colno}")
    except ValueError:
        _refuse("a number is too long")
    if not isinstance(value, dict):
        _refuse("it is not an object")
    return value


def validate(model: type[M], value: object) -> M:
    """Return `value` as an instance of `model`. Raises InvalidRequest, which names the first wrong field."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _error_of(error.errors(include_url=False, include_input=False)[0]) from None


def _error_of(detail: ErrorDetails) -> InvalidRequest:
    param = ".".join(str(name) for name in detail["loc"]) or None
    if detail["type"] == "missing":
        return InvalidRequest("missing_field", f"{param} is required.", param)
    if detail["type"] == "extra_forbidden":
        return InvalidRequest("unknown_field", f"{param or 'An empty name'} is not a known parameter.", param)
    rule = _RULES.get(detail["type"])
    if rule is not None:
        limits = {name: _plain(value) for name, value in detail.get("ctx", {}).items()}
        return InvalidRequest("invalid_value", f"{param or 'The body'} must {rule.format(**limits)}.", param)
    message = detail["msg"].removeprefix("Value error, ")
    return InvalidRequest("invalid_value", f"{param}: {message}." if param else f"{message}.", param)


# A message has the form "FIELD must RULE". These are the rules, by the type of pydantic's error. A name in
# braces stands for a value from the context of pydantic's error.
_RULES = {
    "dict_type": "be an object",
    "model_type": "be an object",
    "model_attributes_type": "be an object",
    "list_type": "be an array",
    "string_type": "be a string",
    "int_type": "be an integer",
    "int_parsing": "be an integer",
    "int_parsing_size": "be an integer of fewer digits",
    "int_from_float": "be an integer",
    "float_type": "be a number",
    "bool_type": "be true or false",
    "too_short": "have at least {min_length} items",
    "too_long": "have at most {max_length} items",
    "string_too_short": "have at least {min_length} characters",
    "string_too_long": "have at most {max_length} characters",
    "greater_than_equal": "be at least {ge}",
    "less_than_equal": "be at most {le}",
    "literal_error": "be {expected}",
}


def _plain(value: Any) -> Any:
    """Return a value for a message: a text without pydantic's quotes, and a float such as 5.0 as 5."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value.replace("'", "") if isinstance(value, str) else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        _refuse("a field occurs twice")
    return members


def _refuse(reason: str) -> NoReturn:
    raise InvalidRequest("invalid_json", f"The body cannot be read: {reason}.")


def _refuse_constant(name: str) -> NoReturn:
    _refuse(f"{name} is not a JSON number")


def _exact(text: str) -> float:
    """Return the number in `text`.

    Raises InvalidRequest if a float cannot represent the number exactly.
    """
    number = float(text)
    if math.isinf(number):
        _refuse(f"{text[:32]} is too large a number")
    try:
        is_exact = Decimal(text) == Decimal(repr(number))
    except ArithmeticError:
        is_exact = False  # the exponent is out of the range of a Decimal
    if not is_exact:
        _refuse(f"{text[:32]} has too many digits")
    return number


_NESTS = (dict, list)  # the types of the values that can contain other values
_decode = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_exact
).decode
# If a field occurs twice, this decoder keeps the last value without an error.
_decode_quickly = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_exact).decode


def _decode_large(text: str) -> Any:
    """Return the value of a JSON text as `_decode` does, in half the time.

    `_decode_quickly` takes less time because it calls no function of Python for each object.
    """
    value = _decode_quickly(text)
    # Each field adds a colon to the text, but `_decode_quickly` keeps only one of two fields with the same
    # name. So if a field occurs twice, or if a string contains a colon, the text has more colons than the
    # value has fields. In both cases `_decode` decides.
    return value if text.count(":") == _field_count(value) else _decode(text)


def _field_count(value: object) -> int:
    """Return the number of fields in all objects of a value together.

    Raises InvalidRequest if the value is nested too deep.
    """
    count = 0
    level: list[Any] = [value] if type(value) in _NESTS else []
    for _ in range(DEPTH_MAX):
        below: list[Any] = []
        for outer in level:
            if type(outer) is dict:
                count += len(outer)
                outer = outer.values()
            for inner in outer:
                if type(inner) in _NESTS:
                    below.append(inner)
        if not below:
            return count
        level = below
    _refuse(f"it is nested deeper than {DEPTH_MAX}")


def _check_characters(value: object) -> None:
    """Raise InvalidRequest if a text of the value contains U+0000 or a lone surrogate.

    JSON can express these characters only as escapes, such as `\\u0000`.
    """
    for text in _texts(value):
        if "\x00" in text:
            _refuse("a string contains the character U+0000")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            _refuse("a string contains a lone surrogate")


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from _texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)
