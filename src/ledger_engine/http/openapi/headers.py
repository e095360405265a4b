"""The headers of answers in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
