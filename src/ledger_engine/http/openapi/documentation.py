"""Makes the OpenAPI 3.1 document from the declarations of the operations and the texts of `texts.py`.

The interface has three surfaces, and each surface has its own form of errors: the ledger (/v1), the directory
(/api) and OAuth (/oauth). An error answer refers to the error schema of its surface. So a generated client
defines one type for the errors of a surface instead of a type for each operation and status. The description
of a status lists the codes of the status, and `x-error-codes` repeats the codes for programs. `x-error-type`
is the `type` of the ledger's errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledger_engine import __version__
from ledger_engine.events.outbox import KINDS, Event
from ledger_engine.http.bodies import FORM, FormOrJson
from ledger_engine.http.errors import CODES, OAUTH_CODES
from ledger_engine.http.openapi import schemas
from ledger_engine.http.openapi.objects import VARIABLE, Objects
from ledger_engine.http.openapi.schemas import (
    RecordSchemas,
    Schema,
    closed_object,
    json_content,
    reference,
    with_example,
)
from ledger_engine.http.openapi.texts import EXAMPLES, TERMS, TEXTS, explain
from ledger_engine.http.operations import Operation, Routes
from ledger_engine.http.pages.views import metadata
from ledger_engine.ledger.accounts import Account
from ledger_engine.ledger.invoices import Invoice
from ledger_engine.ledger.orders import Order
from ledger_engine.ledger.transactions import Transaction
from ledger_engine.ledger.users import User

_EVERYWHERE = ["Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"]
_SURFACES = {"v1": "Ledger", "api": "Directory", "oauth": "OAuth"}
_REASONS = {int(status): reason for status, reason in TEXTS["statuses"].items()}
# The error statuses that an operation can list with the error schema of its surface. 405 is missing, because
# the dispatcher, not an operation, answers with 405. 429 is missing, because the body of a 429 is the same on
# each surface.
_OF_OPERATIONS = [status for status in _REASONS if status not in (405, 429)]
_RATE_LIMITED = {"$ref": "#/components/responses/RateLimited"}
# The class of an event's object, by the first word of the event's type, such as `invoice` in `invoice.paid`.
_SUBJECTS: dict[str, type[Any]] = {kind.OBJECT: kind for kind in (Account, Transaction, Invoice, User, Order)}


def document(resources: Iterable[Routes]) -> dict[str, Any]:
    """Return the whole document as a JSON object."""
    resources = list(resources)
    records = RecordSchemas()
    objects = Objects(operation for routes in resources for operation in routes.operations)
    paths: dict[str, dict[str, Any]] = {}
    for routes in resources:
        for operation in routes.operations:
            path = VARIABLE.sub(r"{\1}", operation.path)
            declaration = _operation(routes, operation, records, objects)
            paths.setdefault(path, {})[operation.method.lower()] = declaration
    webhooks = {kind: {"post": _webhook(kind, records)} for kind in KINDS}
    bodies = [operation.body for routes in resources for operation in routes.operations if operation.body]
    components = {**schemas.of_bodies(bodies), **records.components, **_error_schemas()}
    for name, schema in components.items():
        explain(name, schema)
    info = TEXTS["info"]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": info["title"],
            "version": __version__,
            "summary": info["summary"],
            "description": TEXTS["about"] + _table_of_statuses(),
            "contact": info["contact"],
            "license": info["license"],
        },
        "servers": [{"url": "/", "description": "This server"}],
        "security": [{"bearer": []}],
        "tags": [
            {"name": name, "description": TEXTS["tags"][name]}
            for name in [*(routes.name for routes in resources), "webhooks"]
        ],
        "paths": paths | _pages(),
        "webhooks": webhooks,
        "components": {
            "schemas": components,
            "responses": _error_answers(),
            "parameters": TEXTS["parameters"],
            "headers": TEXTS["headers"],
            "securitySchemes": TEXTS["securitySchemes"],
        },
    }


def _headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


# Operations


def _variable(name: str, path: str, records: RecordSchemas, objects: Objects) -> Schema:
    """Return the schema of the variable `name` in the path.

    This is the schema of the field `name` of the object at this path, or the schema of a string if there is
    no object at this path.
    """
    kind = objects.at(path)
    return {"type": "string"} if kind is None else records.field_of(kind, name)


def _operation(
    routes: Routes, operation: Operation, records: RecordSchemas, objects: Objects
) -> dict[str, Any]:
    parameters: list[Schema] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _variable(name, operation.path, records, objects),
            "description": TERMS[name],
        }
        for name in VARIABLE.findall(operation.path)
    ]
    if operation.query is not None:
        cursor = records.cursor_of(operation.answer) if operation.paged and operation.answer else None
        parameters += schemas.of_query(operation.query, f"{operation.method} {operation.path}", cursor)
    if _is_conditional(operation):
        parameters.append({"$ref": "#/components/parameters/IfNoneMatch"})
    if operation.changes is not None:
        parameters.append({"$ref": "#/components/parameters/IfMatch"})
    if operation.method == "POST" and not operation.public:
        parameters.append({"$ref": "#/components/parameters/IdempotencyKey"})
    declaration: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [routes.name],
        "summary": operation.summary,
        "description": _description(operation),
        "security": _security(operation),
        "responses": _responses(operation, records, objects),
    }
    if parameters:
        declaration["parameters"] = parameters
    if operation.body is not None:
        example = EXAMPLES["bodies"].get(operation.body.__name__)
        content = json_content(reference(operation.body.__name__), example)
        declaration["requestBody"] = {"required": True, "content": content}
        if issubclass(operation.body, FormOrJson):
            # Declare only the form. If JSON were declared too, a generated client would choose JSON, but fill
            # in the fields of the form, and so send an empty body.
            declaration["requestBody"]["content"] = {FORM: content["application/json"]}
            declaration["requestBody"]["description"] = "A form; the same fields may also be sent as JSON."
    if not operation.public:
        declaration["x-required-role"] = operation.role
        if operation.needs is not None:
            declaration["x-required-scope"] = operation.needs
    if not operation.in_contract:
        declaration["x-beyond-contract"] = True
    return declaration


def _is_conditional(operation: Operation) -> bool:
    """Return whether the operation is a GET that answers 304 if its object or list has not changed."""
    return operation.tagged or (operation.method == "GET" and operation.shows_one)


def _description(operation: Operation) -> str:
    if operation.public:
        text = "Takes no credential."
    else:
        scope = f"the scope `{operation.needs}` and " if operation.needs else ""
        text = f"Needs {scope}the role `{operation.role}` or higher."
    if operation.lasting:
        text += (
            " Apps that act for a user may not call this, because its effect would outlast the user's grant."
        )
    return text if operation.in_contract else f"{text} *Addition.*"


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    """Return the credentials that an operation accepts.

    A `lasting` operation accepts no OAuth token, because its effect would outlast the app's grant.
    """
    if operation.public:
        return []
    scopes = [operation.needs] if operation.needs is not None else []
    return [{"bearer": []}] if operation.lasting else [{"bearer": []}, {"oauth": scopes}]


def _responses(operation: Operation, records: RecordSchemas, objects: Objects) -> dict[str, Any]:
    not_modified = {"description": "Unchanged.", "headers": _headers([*_EVERYWHERE, "ETag"])}
    surface = _SURFACES.get(operation.path.split("/")[1], "Ledger")
    errors = {
        str(status): {"$ref": f"#/components/responses/{surface}{status}"}
        for status in _OF_OPERATIONS
        if not (status == 409 and operation.method == "GET" and not operation.of_log)
        if not (status in (401, 403) and operation.public and operation.body is None)
        if not (status == 412 and operation.changes is None)
    }
    return {
        str(operation.status): _success(operation, records, objects),
        **({"304": not_modified} if _is_conditional(operation) else {}),
        **errors,
        "429": _RATE_LIMITED,
    }


def _success(operation: Operation, records: RecordSchemas, objects: Objects) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.answer is not None:
        one = records.refer(operation.answer)
        example = EXAMPLES["records"].get(operation.answer.__name__)
        if operation.paged:
            one = records.page_of(operation.answer)
            example = example and {"data": [example], "has_more": False, "next_cursor": None}
        content |= json_content(one, example)
    for media_type in operation.also_as:
        content[media_type] = with_example({"type": "string"}, EXAMPLES["texts"].get(operation.name))
    links = objects.links(operation)
    has_tag = operation.tagged or operation.shows_one
    return {
        "description": "Created." if operation.status == 201 else "Done.",
        "headers": _headers([*_EVERYWHERE, "ETag"] if has_tag else _EVERYWHERE),
        "content": content,
        **({"links": links} if links else {}),
    }


# Errors


def _error_answers() -> dict[str, Any]:
    """Return, by name, the error answers to which operations refer."""
    return {
        **{
            f"{surface}{status}": _error_answer(status, surface)
            for surface in _SURFACES.values()
            for status in _OF_OPERATIONS
            if (surface, status) != ("OAuth", 412)  # no operation of OAuth changes an object
        },
        "RateLimited": {
            "description": _REASONS[429],
            "headers": _headers([*_EVERYWHERE, "Retry-After"]),
            "content": json_content(
                reference("RateLimitedError"),
                {"error": "rate_limited", "message": "Too many requests. Try again in 1 second."},
            ),
        },
    }


def _error_answer(status: int, surface: str) -> dict[str, Any]:
    kind, codes = CODES[status]
    if surface == "OAuth":
        codes = OAUTH_CODES.get(status, ("invalid_request",))
        example: Schema = {"error": codes[0], "error_description": _REASONS[status]}
    elif surface == "Directory":
        example = {"error": codes[0], "message": _REASONS[status]}
    else:
        example = {"error": {"type": kind, "code": codes[0], "message": _REASONS[status], "param": None}}
    field = "code" if surface == "Ledger" else "error"
    names = [*_EVERYWHERE, "Idempotency-Original", "Idempotency-Originals"] if status == 409 else _EVERYWHERE
    return {
        "description": f"{_REASONS[status]} `{field}`: {', '.join(f'`{code}`' for code in codes)}.",
        "headers": _headers(names),
        "content": json_content(reference(f"{surface}Error"), example),
        **({"x-error-type": kind} if surface == "Ledger" else {}),
        "x-error-codes": list(codes),
    }


def _error_schemas() -> dict[str, Schema]:
    error_bodies: dict[str, Schema] = TEXTS["schemas"]
    codes = sorted({code for _, codes in CODES.values() for code in codes})
    fields = error_bodies["LedgerError"]["properties"]["error"]["properties"]
    fields["type"]["enum"] = sorted({kind for kind, _ in CODES.values()})
    fields["code"]["enum"] = error_bodies["DirectoryError"]["properties"]["error"]["enum"] = codes
    return error_bodies


def _table_of_statuses() -> str:
    rows = [f"| {status} | {reason} |" for status, reason in sorted(_REASONS.items())]
    return "\n".join(["| status | meaning |", "| --- | --- |", *rows])


# Pages and webhooks


def _pages() -> dict[str, Any]:
    """Return the paths of pages and metadata, which are not operations."""
    pages: dict[str, Any] = TEXTS["paths"]
    kinds: dict[type, Schema] = {
        str: {"type": "string", "format": "uri"},
        bool: {"type": "boolean"},
        list: {"type": "array", "items": {"type": "string"}},
    }
    members = {name: kinds[type(value)] for name, value in metadata("").items()}
    schema = {"type": "object", "properties": members, "required": list(members)}
    of_metadata = json_content(schema, metadata("https://ledger.example"))
    return {
        path: {
            "get": {
                **page["get"],
                "responses": {
                    status: answer
                    if "$ref" in answer
                    else {
                        "description": answer["description"],
                        "headers": _headers([*_EVERYWHERE, *answer.get("headers", [])]),
                        "content": answer.get("content", of_metadata),
                    }
                    for status, answer in page["get"]["responses"].items()
                },
            }
        }
        for path, page in pages.items()
    }


def _webhook(kind: str, records: RecordSchemas) -> dict[str, Any]:
    """Return the request that an endpoint gets for an event of this type.

    Add the schema of the event to `records`.
    """
    subject, action = kind.split(".")
    record = _SUBJECTS[subject]
    name = "".join(word.capitalize() for word in (subject, action)) + "Event"
    records.components[name] = _event(kind, records.refer(record), records)
    about = {**EXAMPLES["records"][record.__name__], **EXAMPLES["events"].get(kind, {})}
    example = {**EXAMPLES["records"]["Event"], "type": kind, "data": {"object": about}}
    del example["request"]
    return {
        "operationId": f"on_{subject}_{action}",
        "tags": ["webhooks"],
        "summary": f"{'An' if subject[0] in 'aeio' else 'A'} {subject} was {action}",
        "description": f"Sent at least once to each endpoint that receives `{kind}`: store the ids of the"
        " events that you have handled, to recognize an event that is sent again.",
        "security": [],
        # openapi-generator skips internal operations. From a webhook it would generate a class that is not
        # valid Python.
        "x-internal": True,
        "parameters": [
            {"$ref": f"#/components/parameters/{header}"}
            for header in TEXTS["parameters"]
            if header not in ("IdempotencyKey", "IfMatch", "IfNoneMatch")
        ],
        "requestBody": {
            "required": True,
            "content": json_content(reference(name), example),
        },
        "responses": {
            "2XX": {"description": "Received. After any other answer, except 410, the server tries again."},
            "410": {"description": "The endpoint is gone; the server disables it."},
        },
    }


def _event(kind: str, subject: Schema, records: RecordSchemas) -> Schema:
    """Return the schema of an event of this type as webhooks send it: without the field `request`."""
    event = records.object_of(Event)
    data = {**closed_object({"object": subject}), "description": "The object as it was then."}
    members = {**event["properties"], "type": {"type": "string", "const": kind}, "data": data}
    del members["request"]
    return {**event, "description": f"The event `{kind}` as it is sent.", "properties": members}
