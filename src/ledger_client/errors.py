"""The exceptions for refused and unanswered requests; one class for each type of error.

LedgerError
├── NotSent                no request can be made: the address, the key or a proxy is not valid
├── NotConnected           no answer: refused, reset, timed out
│   └── Unreadable         an answer that is too large, too slow, compressed or of the wrong kind
├── InvalidRequest         400, 405, 413 …: `param` names the field
├── AuthenticationError    401
├── PermissionDenied       403
├── NotFound               404
├── Conflict               409
│   ├── AlreadyDone        the idempotency key was used before: `original` is the first object
│   └── PreconditionFailed 412: the object has changed since the `if_match`
├── RateLimited            429: `retry_after` seconds
└── ApiError               5xx
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_OBJECT_ID = re.compile(r"\b[a-z]{3}_[0-9a-zA-Z]{4,64}\b")


class LedgerError(Exception):
    """A request that the server refused, or did not answer.

    `status` is None when there is no answer. `type`, `code` and `param` come from the answers of the ledger
    surface; on the directory and OAuth surfaces `code` is the field `error`. It is "" when the server is not
    a ledger. `headers` are the headers of the answer.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        type: str = "",
        code: str = "",
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.type = type
        self.code = code
        self.param = param
        self.headers = headers or {}

    @property
    def request_id(self) -> str | None:
        """Return the id of the request in the server's log."""
        return self.headers.get("Request-Id")


class NotSent(LedgerError):
    """Nothing was sent, and trying again does not help."""


class NotConnected(LedgerError):
    """There was no answer. The request may have taken effect."""


class Unreadable(NotConnected):
    """There was an answer that cannot be read; asking again at once does not help."""


class InvalidRequest(LedgerError):
    """The request is wrong: `param` names the field."""


class AuthenticationError(LedgerError):
    """The credential is missing, unknown, expired or revoked."""


class PermissionDenied(LedgerError):
    """The credential may not do this."""


class NotFound(LedgerError):
    """There is no such object in the credential's project and mode."""


class Conflict(LedgerError):
    """The state of the object does not allow it."""


class AlreadyDone(Conflict):
    """The idempotency key was used before.

    `originals` are the known ids of the objects that the first use made; `same_request` is true if the first
    use was the same request.
    """

    originals: Sequence[str] = ()
    same_request = False

    @property
    def original(self) -> str | None:
        """Return the id of the first object that the first use made, None if it is not known."""
        return self.originals[0] if self.originals else None


class PreconditionFailed(Conflict):
    """The object has changed since the ETag in `if_match`; nothing was done."""


class RateLimited(LedgerError):
    """Too many requests; `retry_after` is the number of seconds before the next one, at least 1."""

    retry_after = 1.0


class ApiError(LedgerError):
    """The server failed, or cannot store anything at the moment."""


TYPES: dict[str, type[LedgerError]] = {
    "invalid_request": InvalidRequest,
    "authentication_error": AuthenticationError,
    "permission_error": PermissionDenied,
    "not_found": NotFound,
    "conflict": Conflict,
    "rate_limited": RateLimited,
    "api_error": ApiError,
}
_BY_STATUS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found",
    409: "conflict",
    412: "conflict",
    429: "rate_limited",
}


def error_of(status: int, headers: Mapping[str, str], body: Any) -> LedgerError:
    """Return the exception for a failed request on any surface. The status selects the class."""
    type = _BY_STATUS.get(status, "invalid_request" if status < 500 else "api_error")
    fields = body if isinstance(body, dict) else {}
    code = fields.get("error")
    if isinstance(code, dict):
        fields, code = code, code.get("code") or code.get("type")
    message = _text(fields.get("message")) or _text(fields.get("error_description"))
    kind = TYPES[type]
    if status == 412:
        kind = PreconditionFailed
    elif kind is Conflict and code in ("duplicate_idempotency_key", None):
        kind = AlreadyDone
    error = kind(
        message or f"The server answered {status}.",
        status=status,
        type=_text(fields.get("type")) or type,
        code=_text(code) or "",
        param=_text(fields.get("param")),
        headers=headers,
    )
    if isinstance(error, AlreadyDone):
        error.originals = _originals(headers, fields, error.message)
        error.same_request = fields.get("same_request") is True
    elif isinstance(error, RateLimited):
        error.retry_after = max(1.0, seconds(headers.get("Retry-After")))
    return error


def _text(value: Any) -> str | None:
    """Return a text without lone surrogates, which cannot be shown; None for anything else."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _originals(headers: Mapping[str, str], fields: Mapping[str, Any], message: str) -> Sequence[str]:
    ids = fields.get("originals")
    if isinstance(ids, list) and all(isinstance(id, str) for id in ids):
        return ids
    if (id_in_header := headers.get("Idempotency-Original")) is not None:
        return [id_in_header]
    return _OBJECT_ID.findall(message)[:1]


def seconds(text: str | None) -> float:
    """Return the whole number of seconds in a header, 0 when there is none."""
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) < 16
    return float(text) if is_number and text is not None else 0.0
