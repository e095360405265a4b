"""The OpenAPI 3.1 document, which is generated from the declarations of the operations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ledger_engine import __version__
from ledger_engine.http.bodies import FORM, FormOrJson
from ledger_engine.http.openapi import (
    answers,
    examples,
    of_test_helpers,
    openapi_oauth,
    openapi_webhooks,
    schemas,
)
from ledger_engine.http.openapi.answers import EVERYWHERE, HEADERS, headers
from ledger_engine.http.openapi.schemas import Records, Schema, json_content, text_content
from ledger_engine.http.openapi.terms import TERMS, explain
from ledger_engine.http.operations import Operation, Routes

_PART = re.compile(r"<(?:path:)?(\w+)>")
_TAGS = {
    "accounts": "An account holds a balance in one currency.",
    "statements": "The transactions of an account over a period.",
    "transactions": "A transaction moves one amount on one account; the books always sum to zero.",
    "invoices": "An invoice requests payment: draft, open, paid or void.",
    "users": "The members of the directory.",
    "diff": "What changed between two moments.",
    "orders": "Orders of the directory's users: open, paid, shipped.",
    "tokens": "Short-lived access tokens in exchange for a key.",
    "whoami": "The caller's credential.",
    "api_keys": "Long-lived credentials of one project and mode.",
    "projects": "A project owns everything; its plan sets the limits.",
    "billing": "The plan, and how much of it is used.",
    "webhook_endpoints": "The URLs that events are sent to, signed.",
    "events": "The events that were recorded, and sending them again.",
    "requests": "The requests of the last 7 days.",
    "log": "The transparency log: that the events were not changed is proven to anybody (C2SP).",
    "oauth": "Acting on behalf of a user, with what the user allowed (RFC 6749).",
    "health": "Whether the server can work.",
    "test_helpers": "Setting the clock, breaking and rewinding the ledger, for tests of an app.",
}
_ABOUT = """\
A ledger over HTTP: accounts, transactions, invoices, users and orders.

* Send `Authorization: Bearer <key>`. Keys that start with `sk_test_` see test objects, those that start
  with `sk_live_` live ones.
* Amounts are integers in the currency's smallest unit; times are ISO 8601 in UTC.
* Send an `Idempotency-Key` with everything you create: a second use is a 409, and nothing is made twice.
* Operations marked *beyond the contract* are this server's own.
* `info.version` is this server's own version, by Semantic Versioning (while it starts with 0, the second
  number changes with what does not fit the version before), and this document describes exactly that
  version. The interface has its major version in the path, `/v1`; a later server may have more operations,
  fields and types of events, so a client should ignore those it does not know. The `version` in
  `GET /api/health` is that of the directory's interface.

"""
# No address is known here: who runs the server is whom to ask.
_CONTACT = {"name": "The operator of this server"}
# The project states none, which SPDX writes so; linters want the field.
_LICENCE = {"name": "Not stated", "identifier": "NOASSERTION"}


def document(resources: Iterable[Routes]) -> dict[str, Any]:
    """Return the whole document as a JSON object."""
    resources = list(resources)
    records = Records()
    paths: dict[str, dict[str, Any]] = {}
    for routes in resources:
        for operation in routes.operations:
            path = _PART.sub(r"{\1}", operation.path)
            paths.setdefault(path, {})[operation.method.lower()] = _operation(routes, operation, records)
    paths |= openapi_oauth.pages(headers(EVERYWHERE))
    webhooks = openapi_webhooks.webhooks(records)
    bodies = [operation.body for routes in resources for operation in routes.operations if operation.body]
    components = {**schemas.of_bodies(bodies), **records.components, **answers.error_schemas()}
    for name, schema in components.items():
        explain(name, schema)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ledger",
            "version": __version__,
            "summary": "Accounts, transactions, invoices, users and orders over HTTP.",
            "description": _ABOUT + answers.table(),
            "contact": _CONTACT,
            "license": _LICENCE,
        },
        "servers": [{"url": "/", "description": "This server"}],
        "security": [{"bearer": []}],
        "tags": [
            *({"name": routes.name, "description": _TAGS.get(routes.name, "")} for routes in resources),
            openapi_webhooks.TAG,
        ],
        "paths": paths,
        "webhooks": webhooks,
        "components": {
            "schemas": components,
            "responses": answers.answers(),
            "parameters": {
                "IdempotencyKey": _IDEMPOTENCY_KEY,
                "IfNoneMatch": _IF_NONE_MATCH,
                **openapi_webhooks.PARAMETERS,
            },
            "headers": HEADERS,
            "securitySchemes": {"bearer": _BEARER, "oauth": openapi_oauth.SCHEME},
        },
    }


def _operation(routes: Routes, operation: Operation, records: Records) -> dict[str, Any]:
    parameters: list[Schema] = [
        {
            "name": part,
            "in": "path",
            "required": True,
            "schema": {"type": "string"},
            "description": TERMS[part],
        }
        for part in _PART.findall(operation.path)
    ]
    if operation.query is not None:
        parameters += schemas.of_query(operation.query, f"{operation.method} {operation.path}")
    if operation.tagged:
        parameters.append({"$ref": "#/components/parameters/IfNoneMatch"})
    if operation.method == "POST" and not operation.public:
        parameters.append({"$ref": "#/components/parameters/IdempotencyKey"})
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [routes.name],
        "summary": operation.summary,
        "description": _description(operation),
        "security": openapi_oauth.security(operation),
        "responses": _responses(operation, records),
    }
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        example = _example(examples.BODIES, of_test_helpers.BODIES, operation.body)
        content = json_content(schemas.name_of(operation.body), example)
        described["requestBody"] = {"required": True, "content": content}
        if issubclass(operation.body, FormOrJson):
            # Of two, a generated client takes JSON and leaves the body empty: its fields are the form's.
            described["requestBody"]["content"] = {FORM: content["application/json"]}
            described["requestBody"]["description"] = "A form; the same fields may also be sent as JSON."
    if not operation.public:
        described["x-required-role"] = operation.role
        if operation.needs is not None:
            described["x-required-scope"] = operation.needs
    if not operation.in_contract:
        described["x-beyond-contract"] = True
    return described


def _description(operation: Operation) -> str:
    if operation.public:
        text = "Takes no credential."
    else:
        scope = f"the scope `{operation.needs}` and " if operation.needs else ""
        text = f"Needs {scope}the role `{operation.role}` or higher."
    if operation.lasting:
        text += " Refused to an app that acts for a user: it would outlast what the user allowed."
    return text if operation.in_contract else f"{text} *Beyond the contract.*"


def _responses(operation: Operation, records: Records) -> dict[str, Any]:
    unchanged = {"description": "Unchanged.", "headers": headers([*EVERYWHERE, "ETag"])}
    return {
        str(operation.status): _success(operation, records),
        **({"304": unchanged} if operation.tagged else {}),
        **answers.answers_of(operation),
    }


def _success(operation: Operation, records: Records) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.answer is not None:
        one = records.refer(operation.answer)
        example = _example(examples.RECORDS, of_test_helpers.RECORDS, operation.answer)
        if operation.paged:
            one = records.page_of(operation.answer)
            example = example and {"data": [example], "has_more": False, "next_cursor": None}
        content |= json_content(one, example)
    for media_type in operation.also_as:
        content[media_type] = text_content(examples.TEXTS.get((operation.name, media_type)))
    return {
        "description": "Created." if operation.status == 201 else "Done.",
        "headers": headers([*EVERYWHERE, "ETag"] if operation.tagged else EVERYWHERE),
        "content": content,
    }


def _example(usual: dict[str, Schema], of_helpers: dict[str, Schema], kind: type[Any]) -> Schema | None:
    return usual.get(kind.__name__, of_helpers.get(kind.__name__))


_IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes a retry safe: a key creates one object, once and for ever.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}
_IF_NONE_MATCH: dict[str, Any] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The `ETag` of an earlier answer: 304 if it would be the same. *Beyond the contract.*",
    "schema": {"type": "string"},
}
_BEARER: dict[str, Any] = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key (`sk_test_…`, `sk_live_…`) or an access token (`at_…`).",
}
