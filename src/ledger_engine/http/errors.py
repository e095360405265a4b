"""Renders errors as HTTP answers. Only this module defines the statuses and bodies of these answers.

See docs/decisions.md#errors.
"""

from __future__ import annotations

from typing import Any

from ledger_engine.core.errors import (
    AuthenticationError,
    Conflict,
    DuplicateIdempotencyKey,
    InvalidRequest,
    LedgerError,
    NotFound,
    OAuthRefusal,
    PermissionDenied,
    PreconditionFailed,
    StorageUnavailable,
)
from ledger_engine.core.records import dumps
from ledger_engine.http.wire import head as wire

METHODS = ["DELETE", "GET", "HEAD", "PATCH", "POST"]


class UnsupportedMethod(InvalidRequest):
    """The error with status 405; `methods` are the methods that the path accepts."""

    def __init__(self, methods: list[str]) -> None:
        super().__init__("method_not_allowed", f"This path only accepts {', '.join(methods)}.")
        self.methods = methods


class BodyTimeout(InvalidRequest):
    """The error with status 408: the body did not arrive in time."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_value", message)


class RateLimited(LedgerError):
    """The error with status 429; after `wait` seconds a request is accepted again."""

    def __init__(self, wait: int) -> None:
        seconds = "1 second" if wait == 1 else f"{wait} seconds"
        super().__init__("rate_limited", f"Too many requests. Try again in {seconds}.")
        self.wait = wait


class InternalError(LedgerError):
    """The error with status 500: the caller gets the id of the request and no details."""

    def __init__(self, request: str) -> None:
        super().__init__("internal_error", f"The server failed. The id of this request is {request}.")


_STATUS_OF_CODE = {"payload_too_large": 413, "uri_too_long": 414, "headers_too_large": 431}
# The status for an error whose code is not in `_STATUS_OF_CODE`. The first class of which the error is an
# instance decides, so subclasses come before their base class.
_STATUS_OF_CLASS: list[tuple[type[LedgerError], int]] = [
    (UnsupportedMethod, 405),
    (BodyTimeout, 408),
    (RateLimited, 429),
    (InvalidRequest, 400),
    (AuthenticationError, 401),
    (PermissionDenied, 403),
    (NotFound, 404),
    (PreconditionFailed, 412),
    (Conflict, 409),
    (StorageUnavailable, 503),
    (LedgerError, 500),
]


# By status, the `type` and every `code` that an error answer can contain. 429 is missing, because the body of
# a 429 has another form (`body_of`).
CODES: dict[int, tuple[str, tuple[str, ...]]] = {
    400: (
        "invalid_request",
        (
            "missing_field",
            "unknown_field",
            "invalid_value",
            "invalid_json",
            "invalid_cursor",
            "unsupported_content_type",
            "currency_mismatch",
            "insufficient_funds",
            "balance_out_of_range",
            "unsupported_grant_type",
            "header_conflict",
        ),
    ),
    401: (
        "authentication_error",
        ("missing_credential", "invalid_credential", "expired_credential", "revoked_credential"),
    ),
    403: (
        "permission_error",
        ("missing_scope", "missing_role", "missing_live_key", "quota_exceeded"),
    ),
    404: ("not_found", ("not_found",)),
    405: ("invalid_request", ("method_not_allowed",)),
    408: ("invalid_request", ("invalid_value",)),
    409: (
        "conflict",
        (
            "duplicate_idempotency_key",
            "invoice_not_draft",
            "invoice_not_open",
            "order_not_open",
            "order_not_paid",
            "user_deactivated",
            "email_taken",
            "not_recoverable",
            "not_sealed_yet",
        ),
    ),
    412: ("conflict", ("precondition_failed",)),
    413: ("invalid_request", ("payload_too_large",)),
    414: ("invalid_request", ("uri_too_long",)),
    431: ("invalid_request", ("headers_too_large",)),
    500: ("api_error", ("internal_error",)),
    503: ("api_error", ("storage_unavailable",)),
}


# The values of `error` in the answers of OAuth's endpoints (RFC 6749, 5.2), by status.
OAUTH_CODES: dict[int, tuple[str, ...]] = {
    400: ("invalid_request", "invalid_grant", "invalid_scope", "unsupported_grant_type"),
    401: ("invalid_client",),
    500: ("server_error",),
    503: ("temporarily_unavailable",),
}


def status_of(error: LedgerError) -> int:
    """Return the status of the answer for an error."""
    class_status = next(status for kind, status in _STATUS_OF_CLASS if isinstance(error, kind))
    return _STATUS_OF_CODE.get(error.code, class_status)


def body_of(error: LedgerError, path: str) -> dict[str, Any]:
    """Return the body of the answer that reports the error to a request for `path`.

    The body has one of three forms: the directory's form under /api, OAuth's form under /oauth, and the
    ledger's form under all other paths. Only the body of a 429 is the same under all paths
    (docs/interface.md#errors).
    """
    if isinstance(error, RateLimited) or f"{path}/".startswith("/api/"):
        return {"error": error.code, "message": error.message, **_first_use_fields(error)}
    if f"{path}/".startswith("/oauth/"):
        return {"error": _oauth_code(error), "error_description": error.message}
    return {
        "error": {
            "type": error.type,
            "code": error.code,
            "message": error.message,
            "param": error.param,
            **_first_use_fields(error),
        }
    }


# The most ids in the header `Idempotency-Originals`. 100 ids take 3.1 KB; common clients and proxies refuse
# longer headers.
ORIGINALS_MAX = 100
JSON = (b"content-type", b"application/json")
Rendered = tuple[int, list[tuple[bytes, bytes]], bytes]  # status, headers, body


def render(error: LedgerError, path: str, status: int | None = None) -> Rendered:
    """Return the status, headers and body of the answer that reports the error to a request for `path`.

    `status`, if given, replaces the error's own status.
    """
    headers = [JSON]
    if isinstance(error, UnsupportedMethod):
        headers.append((b"allow", ", ".join(error.methods).encode()))
    if isinstance(error, AuthenticationError):
        # Under /oauth, apps may send their client_id with the scheme Basic (RFC 6749, 5.2).
        scheme = b'Basic realm="OAuth"' if f"{path}/".startswith("/oauth/") else b"Bearer"
        headers.append((b"www-authenticate", scheme))
    if isinstance(error, RateLimited):
        headers.append((b"retry-after", b"%d" % error.wait))
    if isinstance(error, DuplicateIdempotencyKey):
        headers.append((b"idempotency-original", error.original.encode()))
        if 0 < len(error.originals) <= ORIGINALS_MAX:
            headers.append((b"idempotency-originals", ",".join(error.originals).encode()))
    return status or status_of(error), headers, dumps(body_of(error, path)).encode()


def _first_use_fields(error: LedgerError) -> dict[str, Any]:
    """Return the fields about the first use of an idempotency key, if the error refuses a second use."""
    if not isinstance(error, DuplicateIdempotencyKey):
        return {}
    fields: dict[str, Any] = {}
    if error.same_request is not None:
        fields["same_request"] = error.same_request
    if error.originals:
        fields["originals"] = error.originals
    return fields


def from_wire(error: wire.BadRequest) -> LedgerError:
    """Return the ledger's error for a request that the HTTP/1.1 server (`wire`) refuses."""
    if isinstance(error, wire.UnknownMethod):
        return UnsupportedMethod(METHODS)
    if isinstance(error, wire.AuthorizationTooLong):
        return AuthenticationError(
            "invalid_credential", "The Authorization header is too long for an API key or token."
        )
    if isinstance(error, wire.HeadTooLarge):
        return InvalidRequest("headers_too_large", error.message)
    if isinstance(error, wire.TargetTooLong):
        return InvalidRequest("uri_too_long", error.message)
    if isinstance(error, wire.BodyTooLarge):
        return InvalidRequest("payload_too_large", "The body is larger than 1 MB.")
    code = "header_conflict" if isinstance(error, wire.HeaderConflict) else "invalid_value"
    return InvalidRequest(code, error.message)


def _oauth_code(error: LedgerError) -> str:
    """Return the code that RFC 6749, 5.2, defines for the error, or the closest code if there is none."""
    if isinstance(error, OAuthRefusal):
        return error.code
    if isinstance(error, AuthenticationError):
        return "invalid_client"
    if isinstance(error, StorageUnavailable):
        return "temporarily_unavailable"
    return "invalid_request" if isinstance(error, (InvalidRequest, NotFound)) else "server_error"
