"""What a server refuses, or does not answer, as exceptions; one class for each type of error.

LedgerError
├── NotSent                no request can be made: the address, the key or a proxy is not valid
├── NotConnected           no answer: refused, reset, timed out
│   └── Unreadable         an answer that is too large, too slow, compressed or not what was asked for
├── InvalidRequest         400, 405, 413 …: `param` names the field
├── AuthenticationError    401
├── PermissionDenied       403
├── NotFound               404
├── Conflict               409
│   ├── AlreadyDone        the idempotency key was used before: `original` is what it made
│   └── PreconditionFailed 412: the object has changed since it had the `if_match`
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

    `status` is None when there is no answer. `type`, `code` and `param` are those of the ledger surface; on
    the directory and OAuth surfaces `code` is what the answer calls `error`. It is "" where what answers is
    not a ledger. `headers` are those of the answer.
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
        """Return the id by which the server's log has the request."""
        return self.headers.get("Request-Id")


class NotSent(LedgerError):
    """Nothing was sent, and trying again does not help."""


class NotConnected(LedgerError):
    """There was no answer. What the request was to do may have happened."""


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

    `originals` are the ids that the first use made, as far as they are known; `same_request` is whether that
    was the same request.
    """

    originals: Sequence[str] = ()
    same_request = False

    @property
    def original(self) -> str | None:
        """Return the id that the first use made, the first one of a batch; None if it is not known."""
        return self.originals[0] if self.originals else None


class PreconditionFailed(Conflict):
    """The object has changed since it had the ETag in `if_match`; nothing was done."""


class RateLimited(LedgerError):
    """Too many requests; `retry_after` is in how many seconds to send the next one, at least 1."""

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
    """Return the exception for an answer that is no success, of any surface. Its status gives the class."""
    type = _BY_STATUS.get(status, "invalid_request" if status < 500 else "api_error")
    shown = body if isinstance(body, dict) else {}
    code = shown.get("error")
    if isinstance(code, dict):
        shown, code = code, code.get("code") or code.get("type")
    message = _text(shown.get("message")) or _text(shown.get("error_description"))
    kind = TYPES[type]
    if status == 412:
        kind = PreconditionFailed
    elif kind is Conflict and code in ("duplicate_idempotency_key", None):
        kind = AlreadyDone
    error = kind(
        message or f"The server answered {status}.",
        status=status,
        type=_text(shown.get("type")) or type,
        code=_text(code) or "",
        param=_text(shown.get("param")),
        headers=headers,
    )
    if isinstance(error, AlreadyDone):
        error.originals = _originals(headers, shown, error.message)
        error.same_request = shown.get("same_request") is True
    elif isinstance(error, RateLimited):
        error.retry_after = max(1.0, seconds(headers.get("Retry-After")))
    return error


def _text(value: Any) -> str | None:
    """Return a text without lone surrogates, which could not be shown; None for anything else."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _originals(headers: Mapping[str, str], shown: Mapping[str, Any], message: str) -> Sequence[str]:
    listed = shown.get("originals")
    if isinstance(listed, list) and all(isinstance(each, str) for each in listed):
        return listed
    if (one := headers.get("Idempotency-Original")) is not None:
        return [one]
    return _OBJECT_ID.findall(message)[:1]


def seconds(text: str | None) -> float:
    """Return the whole number of seconds in a header, 0 when there is none."""
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) < 16
    return float(text) if is_number and text is not None else 0.0
