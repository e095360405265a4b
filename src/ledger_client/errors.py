"""The exceptions for refused and unanswered requests; one class for each type of error.

LedgerError
├── NotSent                no request was sent: the address, the key or a proxy is not valid
├── NotConnected           no answer: the connection was refused, was reset or timed out
│   └── Unreadable         an answer that is too large, too slow, compressed or of the wrong kind
├── InvalidRequest         400, 405, 413 …: `param` names the field
├── AuthenticationError    401
├── PermissionDenied       403
├── NotFound               404
├── Conflict               409
│   ├── AlreadyDone        the idempotency key was used before, for the object `original`
│   └── PreconditionFailed 412: the object is no longer in the state that `if_match` names
├── RateLimited            429: `retry_after` seconds
└── ApiError               5xx
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_OBJECT_ID = re.compile(r"\b[a-z]{3}_[0-9a-zA-Z]{4,64}\b")


class LedgerError(Exception):
    """The base class: the server refused a request or did not answer it, or the client could not send it.

    `status` is None if no answer came. `type`, `code` and `param` are the fields of the ledger's error. An
    error of the directory (the paths under /api) or of OAuth contains only a code, in the field `error`; in
    this case `type` follows from the status. `code` is "" if the answer contains no code, for example because
    the server is not a ledger. `headers` are the headers of the answer.
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
        """Return the id of the request in the server's log; None if the answer named no id."""
        return self.headers.get("Request-Id")


class NotSent(LedgerError):
    """The client sent no request, and would fail again if you tried again."""


class NotConnected(LedgerError):
    """There was no answer. The request may have taken effect."""


class Unreadable(NotConnected):
    """An answer came that cannot be read; the same request would fail again if you repeated it at once."""


class InvalidRequest(LedgerError):
    """The request is wrong; `param` names the wrong field."""


class AuthenticationError(LedgerError):
    """The credential is missing, unknown, expired or revoked."""


class PermissionDenied(LedgerError):
    """The credential lacks a right, or the project's quota is used up."""


class NotFound(LedgerError):
    """No such object or path exists in the credential's project and mode."""


class Conflict(LedgerError):
    """The state of the object does not allow the request."""


class AlreadyDone(Conflict):
    """The idempotency key was used before.

    `originals` are the ids of the objects that the first request with this key made, if they are known.
    `same_request` is true if the first request was the same as the refused request.
    """

    originals: Sequence[str] = ()
    same_request = False

    @property
    def original(self) -> str | None:
        """Return the first of `originals`; None if no id is known."""
        return self.originals[0] if self.originals else None


class PreconditionFailed(Conflict):
    """The object is no longer in the state that `if_match` names; the server changed nothing."""


class RateLimited(LedgerError):
    """The rate limit is exceeded; wait for `retry_after` seconds, at least 1, before the next request."""

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
    """Return the exception for an error answer of the ledger, the directory or OAuth.

    The status selects the class.
    """
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
    """Return the text without lone surrogates, which cannot be printed; None for a value that is no text."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _originals(headers: Mapping[str, str], fields: Mapping[str, Any], message: str) -> Sequence[str]:
    ids = fields.get("originals")
    if isinstance(ids, list) and all(isinstance(id, str) for id in ids):
        return ids
    if (id_in_header := headers.get("Idempotency-Original")) is not None:
        return [id_in_header]
    return _OBJECT_ID.findall(message)[:1]


def seconds(text: str | None) -> float:
    """Return the number of seconds in a header; 0 if the header contains no whole number."""
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) < 16
    return float(text) if is_number and text is not None else 0.0
