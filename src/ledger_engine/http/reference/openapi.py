"""The OpenAPI 3.1 document, generated from the declarations of the operations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ledger_engine import __version__
from ledger_engine.http.bodies import FORM, FormOrJson
from ledger_engine.http.errors import CODES, OAUTH_CODES
from ledger_engine.http.operations import Operation, Routes
from ledger_engine.http.reference import examples, of_test_helpers, openapi_oauth, schemas
from ledger_engine.http.reference.schemas import Records, Schema
from ledger_engine.http.reference.terms import TERMS, explain

_SURFACES = {"v1": "Ledger", "api": "Directory", "oauth": "OAuth"}
_PART = re.compile(r"<(\w+)>")
_REASONS = {
    400: "A body, a field or a parameter breaks a rule.",
    401: "No credential, or an invalid one.",
    403: "The credential may not do this, or the plan's quota is used up.",
    404: "There is no such object for this project and mode.",
    405: "The path does not have this method; `Allow` names those it has.",
    408: "The body did not arrive in time.",
    409: "The state of the object, or a used idempotency key, forbids it.",
    413: "The body is larger than 1 MB, or a file than 25 MB.",
    414: "The URL is longer than 8 KB.",
    431: "The headers are larger than 16 KB.",
    500: "Something went wrong on the server's side.",
    503: "The database cannot be read or written now; the message says whether anything was changed.",
}
_TAGS = {
    "accounts": "An account holds a balance in one currency.",
    "statements": "The transactions of an account over a period.",
    "transactions": "A transaction moves one amount on one account; the books always sum to zero.",
    "invoices": "An invoice requests payment: draft, open, paid or void.",
    "users": "The members of the directory.",
    "orders": "Orders of the directory's users: open, paid, shipped.",
    "tokens": "Short-lived access tokens in exchange for a key.",
    "whoami": "The caller's credential.",
    "api_keys": "Long-lived credentials of one project and mode.",
    "projects": "A project owns everything; its plan sets the limits.",
    "billing": "The plan, and how much of it is used.",
    "webhook_endpoints": "The URLs that events are sent to, signed.",
    "events": "The events that were recorded, and sending them again.",
    "requests": "The requests of the last 7 days.",
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

| status | meaning |
| --- | --- |
"""


def document(resources: Iterable[Routes]) -> dict[str, Any]:
    """Return the whole document as a JSON object."""
    resources = list(resources)
    records = Records()
    paths: dict[str, dict[str, Any]] = {}
    for routes in resources:
        for operation in routes.operations:
            path = _PART.sub(r"{\1}", operation.path)
            paths.setdefault(path, {})[operation.method.lower()] = _operation(routes, operation, records)
    paths |= openapi_oauth.pages(_headers(_EVERYWHERE))
    bodies = [operation.body for routes in resources for operation in routes.operations if operation.body]
    components = {**schemas.of_bodies(bodies), **records.components, **_error_schemas()}
    for name, schema in components.items():
        explain(name, schema)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ledger", "version": __version__, "description": _ABOUT + _statuses()},
        "servers": [{"url": "/", "description": "This server"}],
        "security": [{"bearer": []}],
        "tags": [{"name": routes.name, "description": _TAGS.get(routes.name, "")} for routes in resources],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                **{
                    f"{surface}{status}": _error(status, surface)
                    for surface in _SURFACES.values()
                    for status in _REASONS
                },
                "RateLimited": _rate_limited(),
            },
            "parameters": {"IdempotencyKey": _IDEMPOTENCY_KEY},
            "headers": _HEADERS,
            "securitySchemes": {"bearer": _BEARER, "oauth": openapi_oauth.SCHEME},
        },
    }


def _statuses() -> str:
    """Return the table of error statuses, in Markdown."""
    reasons = {**_REASONS, 429: "Too many requests; wait for `Retry-After`."}
    return "\n".join(f"| {status} | {reason} |" for status, reason in sorted(reasons.items()))


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
        content = _json(schemas.name_of(operation.body), example)
        described["requestBody"] = {"required": True, "content": content}
        if issubclass(operation.body, FormOrJson):
            # Of two, a generated client takes JSON and leaves the body empty: its fields are the form's.
            described["requestBody"]["content"] = {FORM: content["application/json"]}
            described["requestBody"]["description"] = "A form; the same fields may also be sent as JSON."
    if not operation.public:
        described["x-required-role"] = operation.role
        if operation.needs is not None:
            described["x-required-scope"] = operation.needs
    if operation.beyond_contract:
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
    return f"{text} *Beyond the contract.*" if operation.beyond_contract else text


def _responses(operation: Operation, records: Records) -> dict[str, Any]:
    responses: dict[str, Any] = {str(operation.status): _success(operation, records)}
    surface = _SURFACES.get(operation.path.split("/")[1], "Ledger")
    for status in _REASONS:
        if status == 405 or (status == 409 and operation.method == "GET"):
            continue  # no operation itself answers with 405
        if status in (401, 403) and operation.public and operation.body is None:
            continue
        responses.setdefault(str(status), {"$ref": f"#/components/responses/{surface}{status}"})
    responses["429"] = {"$ref": "#/components/responses/RateLimited"}
    return responses


def _success(operation: Operation, records: Records) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.answer is not None:
        one = records.refer(operation.answer)
        example = _example(examples.RECORDS, of_test_helpers.RECORDS, operation.answer)
        if operation.paged:
            one = _page_of(one)
            example = example and {"data": [example], "has_more": False, "next_cursor": None}
        content |= _json(one, example)
    for media_type in operation.also_as:
        content[media_type] = {"schema": {"type": "string"}}
    return {
        "description": "Created." if operation.status == 201 else "Done.",
        "headers": _headers(_EVERYWHERE),
        "content": content,
    }


def _example(usual: dict[str, Schema], of_helpers: dict[str, Schema], kind: type[Any]) -> Schema | None:
    return usual.get(kind.__name__, of_helpers.get(kind.__name__))


def _json(schema: Schema, example: Schema | None) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": schema}
    if example is not None:
        content["examples"] = {"Example": {"value": example}}
    return {"application/json": content}


def _page_of(item: Schema) -> Schema:
    """Return the schema of the list envelope (docs/interface.md#list-envelope)."""
    page: Schema = {
        "type": "object",
        "properties": {
            "data": {"type": "array", "items": item},
            "has_more": {"type": "boolean"},
            "next_cursor": {"type": ["string", "null"]},
        },
        "required": ["data", "has_more", "next_cursor"],
        "additionalProperties": False,
    }
    explain("", page)
    return page


def _error(status: int, surface: str) -> dict[str, Any]:
    kind, codes = CODES[status]
    if surface == "OAuth":
        codes = OAUTH_CODES.get(status, ("invalid_request",))
        text: Schema = {"error": {"enum": list(codes)}}
        example: Schema = {"error": codes[0], "error_description": _REASONS[status]}
    elif surface == "Directory":
        text = {"error": {"enum": list(codes)}}
        example = {"error": codes[0], "message": _REASONS[status]}
    else:
        text = {"error": {"properties": {"type": {"const": kind}, "code": {"enum": list(codes)}}}}
        example = {"error": {"type": kind, "code": codes[0], "message": _REASONS[status], "param": None}}
    reference: Schema = {"$ref": f"#/components/schemas/{surface}Error"}
    names = [*_EVERYWHERE, "Idempotency-Original", "Idempotency-Originals"] if status == 409 else _EVERYWHERE
    return {
        "description": _REASONS[status],
        "headers": _headers(names),
        "content": _json({"allOf": [reference, {"properties": text}]}, example),
    }


def _rate_limited() -> dict[str, Any]:
    return {
        "description": "Too many requests; wait for `Retry-After`.",
        "headers": _headers([*_EVERYWHERE, "Retry-After"]),
        "content": _json(
            {"$ref": "#/components/schemas/RateLimitedError"},
            {"error": "rate_limited", "message": "Too many requests. Try again in 1 second."},
        ),
    }


def _error_schemas() -> dict[str, Schema]:
    text: Schema = {"type": "string"}
    codes = sorted({code for _, codes in CODES.values() for code in codes})
    fields: Schema = {
        "type": {
            "type": "string",
            "enum": sorted({kind for kind, _ in CODES.values()}),
            "description": "The kind of error.",
        },
        "code": {"type": "string", "enum": codes},
        "message": text,
        "param": {"type": ["string", "null"]},
    }
    return {
        "LedgerError": _closed({"error": _closed(fields, _OF_FIRST_USE)}),
        "DirectoryError": {
            **_closed({"error": {"type": "string", "enum": codes}, "message": text}, _OF_FIRST_USE),
            "additionalProperties": True,
        },
        "OAuthError": _closed({"error": text, "error_description": text}),
        "RateLimitedError": _closed({"error": {"const": "rate_limited"}, "message": text}),
    }


def _closed(fields: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    # Copied, because each copy gets its own description.
    properties = {name: dict(field) for name, field in {**fields, **(optional or {})}.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(fields),
        "additionalProperties": False,
    }


def _headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


# Fields of the answer to a second use of an idempotency key.
_OF_FIRST_USE: dict[str, Schema] = {
    "same_request": {"type": "boolean"},
    "originals": {"type": "array", "items": {"type": "string"}},
}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_HEADERS: dict[str, Any] = {
    "Request-Id": {
        "description": "The id of this request, also in the server's log.",
        "schema": {"type": "string", "pattern": "^req_[0-9a-z]{26}$"},
    },
    "X-RateLimit-Limit": {"description": "Requests allowed in the window.", "schema": _COUNT},
    "X-RateLimit-Remaining": {"description": "Requests left in the window.", "schema": _COUNT},
    "X-RateLimit-Reset": {
        "description": "When the window resets: Unix time in seconds.",
        "schema": _COUNT,
    },
    "Location": {"description": "The `redirect_uri`, with the error.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}},
    "Idempotency-Original": {
        "description": "The object that the idempotency key created before. *Beyond the contract.*",
        "schema": {"type": "string"},
    },
    "Idempotency-Originals": {
        "description": "The ids of all that a batch of up to 100 created, in its order, or of an action's"
        " object and of what the action made; separated by commas. *Beyond the contract.*",
        "schema": {"type": "string"},
    },
}
_EVERYWHERE = ["Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"]
_IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes a retry safe: a key creates one object, once and for ever.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}
_BEARER: dict[str, Any] = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key (`sk_test_…`, `sk_live_…`) or an access token (`at_…`).",
}
