"""The client and the OpenAPI document name the same operations, fields and errors."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import unquote

import pytest

from ledger_client import EVENT_TYPES, AsyncLedger, LedgerError, errors, records
from ledger_client.calls import ApiCall
from ledger_client.methods import Iteration, Operation, Resource
from ledger_engine.http.app import RESOURCES
from ledger_engine.http.errors import CODES
from ledger_engine.http.openapi.documentation import document

DOCUMENT = document(RESOURCES)
SCHEMAS = DOCUMENT["components"]["schemas"]
KNOWN = {
    op["operationId"]: (method.upper(), path, op)
    for path, ops in DOCUMENT["paths"].items()
    for method, op in ops.items()
}
# What is no request of a program, and how the stream is read, which is no list.
LEFT_OUT = {"authorize": "a page for the browser of a user", "stream_events": "AsyncLedger.follow"}
# Methods that are not an operation of their own.
BESIDE = {"request": "sends any request", "stream": "follows /v1/events/stream"}
PAGES = {"limit", "cursor", "page", "per_page", "starting_after", "ending_before"}


def methods() -> Iterator[tuple[str, Resource[Any], Operation[Any, Any] | Iteration[Any, Any]]]:
    ledger = AsyncLedger("http://127.0.0.1:1")
    for resource in (ledger, *(each for each in vars(ledger).values() if isinstance(each, Resource))):
        for name, method in inspect.getmembers(type(resource)):
            if isinstance(method, Operation | Iteration) and name not in BESIDE:
                yield f"{type(resource).__name__}.{name}", resource, method


METHODS = {name: (resource, method) for name, resource, method in methods()}


class Asked(Exception):
    pass


async def call_of(name: str) -> ApiCall[Any]:
    """Return the call of a method that was given a value for each of its parameters."""
    resource, method = METHODS[name]
    made = method.call_of if isinstance(method, Operation) else method.batches_of
    _, *parameters = inspect.signature(made).parameters.values()
    given = {each.name: VALUES.get(each.name, f"{{{each.name}}}") for each in parameters}
    if isinstance(method, Operation):
        call = made(resource, **given)
        assert isinstance(call, ApiCall)
        return call
    asked: list[ApiCall[Any]] = []

    async def send(call: ApiCall[Any]) -> Any:
        asked.append(call)
        raise Asked

    resource._ledger.send = send
    with pytest.raises(Asked):
        await anext(made(resource, **given))
    return asked[0]


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
VALUES: dict[str, Any] = {
    **dict.fromkeys(("at", "from_", "to", "since"), MOMENT),
    "created_after": MOMENT,
    **{name: [] for name in ("transactions", "lines", "items", "events", "scopes")},
    "status": 200,
    "metadata": {},
}


async def test_each_operation_of_the_document_is_a_method_and_no_method_is_another() -> None:
    called = {(call.method, unquote(call.path)) for call in [await call_of(name) for name in METHODS]}
    described = {(method, path) for name, (method, path, _) in KNOWN.items() if name not in LEFT_OUT}
    assert called == described
    assert KNOWN.keys() >= LEFT_OUT.keys()


@pytest.mark.parametrize("name", METHODS)
async def test_a_method_takes_what_its_operation_takes(name: str) -> None:
    call = await call_of(name)
    asked = (call.method, unquote(call.path))
    (found,) = (op for method, path, op in KNOWN.values() if (method, path) == asked)
    query = {each["name"] for each in found.get("parameters", ()) if each.get("in") == "query"}
    assert set(call.query) - PAGES == query - PAGES
    bodies = [resolved(each["schema"]) for each in found.get("requestBody", {}).get("content", {}).values()]
    forms = [form for each in bodies for form in each.get("anyOf", each.get("oneOf", [each]))]
    assert set(call.body or ()) in [field_names(each) for each in forms] or not (call.body or forms)


def resolved(schema: Any) -> Any:
    return SCHEMAS[schema["$ref"].split("/")[-1]] if "$ref" in schema else schema


def field_names(schema: Any) -> set[str]:
    return set(resolved(schema).get("properties", ()))


KINDS = {
    "Account": records.Account, "Balance": records.Balance, "WholeStatement": records.Statement,
    "Currency": records.Currency,
    "Transaction": records.Transaction, "Invoice": records.Invoice, "User": records.User,
    "Order": records.Order, "Event": records.Event, "EndpointWithSecret": records.WebhookEndpoint,
    "Delivery": records.Delivery, "ApiKeyWithValue": records.ApiKey, "ProjectWithKey": records.Project,
    "Billing": records.Billing, "Whoami": records.Caller, "Health": records.Health,
    "RequestWithEvents": records.LoggedRequest, "OAuthTokens": records.TokenPair, "Change": records.Change,
}  # fmt: skip
INNER = {("WholeStatement", "lines"): records.StatementLine, ("Delivery", "attempts"): records.Attempt}


@pytest.mark.parametrize("name", KINDS)
def test_a_record_has_the_fields_of_the_document(name: str) -> None:
    assert {each.name for each in fields(KINDS[name])} - {"more", "etag"} == field_names(SCHEMAS[name]) - {
        "object"
    }


@pytest.mark.parametrize(("name", "field"), INNER)
def test_the_fields_of_a_record_are_the_documents(name: str, field: str) -> None:
    described = SCHEMAS[name]["properties"][field]["items"]
    assert {each.name for each in fields(INNER[name, field])} - {"more", "etag"} == field_names(described)


def literals(hint: Any) -> set[Any]:
    """Return the values of the Literal in a type, which may be a list or optional."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    return {value for inner in get_args(hint) for value in literals(inner)}


@pytest.mark.parametrize("name", KINDS)
def test_a_field_with_few_values_is_typed_with_the_values_of_the_document(name: str) -> None:
    hints = get_type_hints(KINDS[name])
    for field, described in SCHEMAS[name]["properties"].items():
        values = described.get("enum", described.get("items", {}).get("enum", ()))
        if field != "token_type":  # its case means nothing (RFC 6749, 5.1)
            assert (field, literals(hints.get(field))) == (field, {*values} - {None})


def test_a_value_that_only_a_newer_server_knows_is_kept() -> None:
    invoice = records.read(records.Invoice, {"id": "inv_1", "status": "disputed"})
    assert str(invoice.status) == "disputed"


def test_each_type_of_error_has_its_class() -> None:
    assert {error_type for error_type, _ in CODES.values()} | {"rate_limited"} == errors.TYPES.keys()
    assert all(issubclass(each, LedgerError) for each in errors.TYPES.values())
    tree = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    classes = {name for name, each in vars(errors).items() if isinstance(each, type)}
    assert tree == {name for name in classes if issubclass(getattr(errors, name), LedgerError)} - {
        "LedgerError"
    }


@pytest.mark.parametrize(
    ("status", "type", "code"),
    [(status, type, code) for status, (type, codes) in CODES.items() for code in codes],
)
def test_an_error_has_the_class_of_its_type(status: int, type: str, code: str) -> None:
    body = {"error": {"type": type, "code": code, "message": "m", "param": "p"}}
    error = errors.error_of(status, {}, body)
    assert isinstance(error, errors.TYPES[type])
    assert (error.status, error.type, error.code, error.message, error.param) == (
        status,
        type,
        code,
        "m",
        "p",
    )


@pytest.mark.process
def test_both_programs_start_without_the_client() -> None:
    text = (
        "import sys, ledger_client; sys.exit('httpx' in sys.modules or 'ledger_client.ledger' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", text]).returncode == 0


@pytest.mark.process
def test_the_client_needs_neither_program_nor_what_they_stand_on() -> None:
    text = """import sys
from ledger_client import AsyncLedger, Ledger, errors, records, webhooks
Ledger("http://127.0.0.1:1").close()
loaded = {name.partition(".")[0] for name in sys.modules}
print(*loaded & {"ledger_engine", "ledger_tui", "textual", "quart", "pydantic", "sqlite3"})"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_does(name: str) -> None:
    assert METHODS[name][1].__doc__


def test_the_types_of_events_are_those_of_the_document() -> None:
    assert {*EVENT_TYPES} == DOCUMENT["webhooks"].keys()
