"""The headers and the errors of answers in the OpenAPI document.

Errors have a schema for each surface, and an answer for each surface and status.

An answer only refers to its surface's schema, so that a generated client has one type for it and not one for
each operation and status. Which codes come with a status is in its description and, for programs, in
`x-error-codes`; of the ledger's errors `x-error-type` is the `type`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledger_engine.http.errors import CODES, OAUTH_CODES
from ledger_engine.http.openapi.schemas import Schema, json_content
from ledger_engine.http.operations import Operation

_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
HEADERS: dict[str, Any] = {
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
    "ETag": {
        "description": "The state of the answer, for `If-None-Match`. A copy of another server sends none.",
        "schema": {"type": "string"},
    },
    "Location": {"description": "The `redirect_uri`, with the error.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}},
    "Idempotency-Original": {
        "description": "The object that the idempotency key created before. *Beyond the contract.*",
        "schema": {"type": "string"},
    },
    "Idempotency-Originals": {
        "description": "The ids of all that a batch created, in its order, or of an action's object and of"
        " what the action made; separated by commas. It is absent where they are more than 100: then"
        " `originals` in the body has them. *Beyond the contract.*",
        "schema": {"type": "string"},
    },
}
EVERYWHERE = ["Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"]


def headers(names: Iterable[str]) -> dict[str, Any]:
    """Return references to these headers."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


_SURFACES = {"v1": "Ledger", "api": "Directory", "oauth": "OAuth"}
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
_OF_OPERATIONS = [status for status in _REASONS if status != 405]  # no operation itself answers with 405
_TOO_MANY = "Too many requests; wait for `Retry-After`."
# Fields of the answer to a second use of an idempotency key.
_OF_FIRST_USE: dict[str, Schema] = {
    "same_request": {"type": "boolean"},
    "originals": {"type": "array", "items": {"type": "string"}},
}


def answers_of(operation: Operation) -> dict[str, Schema]:
    """Return references to the errors that an operation may answer with, by status."""
    surface = _SURFACES.get(operation.path.split("/")[1], "Ledger")
    referred = {}
    for status in _OF_OPERATIONS:
        if status == 409 and operation.method == "GET" and not operation.of_log:
            continue
        if status in (401, 403) and operation.public and operation.body is None:
            continue
        referred[str(status)] = {"$ref": f"#/components/responses/{surface}{status}"}
    return {**referred, "429": {"$ref": "#/components/responses/RateLimited"}}


def answers() -> dict[str, Any]:
    """Return the answers that operations refer to, by name."""
    return {
        **{
            f"{surface}{status}": _answer(status, surface)
            for surface in _SURFACES.values()
            for status in _OF_OPERATIONS
        },
        "RateLimited": {
            "description": _TOO_MANY,
            "headers": headers([*EVERYWHERE, "Retry-After"]),
            "content": json_content(
                {"$ref": "#/components/schemas/RateLimitedError"},
                {"error": "rate_limited", "message": "Too many requests. Try again in 1 second."},
            ),
        },
    }


def table() -> str:
    """Return the table of error statuses, in Markdown."""
    rows = [f"| {status} | {reason} |" for status, reason in sorted({**_REASONS, 429: _TOO_MANY}.items())]
    return "\n".join(["| status | meaning |", "| --- | --- |", *rows])


def error_schemas() -> dict[str, Schema]:
    """Return the schemas of the error bodies, by name."""
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
        "RateLimitedError": _closed({"error": {"type": "string", "const": "rate_limited"}, "message": text}),
    }


def _answer(status: int, surface: str) -> dict[str, Any]:
    kind, codes = CODES[status]
    if surface == "OAuth":
        codes = OAUTH_CODES.get(status, ("invalid_request",))
        example: Schema = {"error": codes[0], "error_description": _REASONS[status]}
    elif surface == "Directory":
        example = {"error": codes[0], "message": _REASONS[status]}
    else:
        example = {"error": {"type": kind, "code": codes[0], "message": _REASONS[status], "param": None}}
    field = "code" if surface == "Ledger" else "error"
    names = [*EVERYWHERE, "Idempotency-Original", "Idempotency-Originals"] if status == 409 else EVERYWHERE
    return {
        "description": f"{_REASONS[status]} `{field}`: {', '.join(f'`{code}`' for code in codes)}.",
        "headers": headers(names),
        "content": json_content({"$ref": f"#/components/schemas/{surface}Error"}, example),
        **({"x-error-type": kind} if surface == "Ledger" else {}),
        "x-error-codes": list(codes),
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
