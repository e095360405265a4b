"""What a server refuses, as exceptions: one class for each type of error, whichever surface answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class LedgerError(Exception):
    """A request that the server refused, or did not answer.

    `status` is None when there is no answer. `type`, `code` and `param` are those of the ledger surface; on
    the directory and OAuth surfaces `code` is what the answer calls `error`. `original` is the id that the
    first use of an idempotency key made, `same_request` whether that was the same request.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        type: str = "",
        code: str = "",
        param: str | None = None,
        request_id: str | None = None,
        original: str | None = None,
        same_request: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.type = type
        self.code = code
        self.param = param
        self.request_id = request_id
        self.original = original
        self.same_request = same_request


class NotConnected(LedgerError):
    """There was no answer, or it could not be read. What the request was to do may have happened."""


class InvalidRequest(LedgerError):
    """The request is wrong: `param` names the field."""


class AuthenticationError(LedgerError):
    """The credential is missing, unknown, expired or revoked."""


class PermissionDenied(LedgerError):
    """The credential may not do this."""


class NotFound(LedgerError):
    """There is no such object in the credential's project and mode."""


class Conflict(LedgerError):
    """The state of the object, or the idempotency key, does not allow it."""


class RateLimited(LedgerError):
    """Too many requests; the client has waited and tried again as often as it may."""


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
    429: "rate_limited",
}


def error_of(status: int, headers: Mapping[str, str], body: Any) -> LedgerError:
    """Return the exception for an answer that is no success, of any surface."""
    type = _BY_STATUS.get(status, "invalid_request" if status < 500 else "api_error")
    shown = body if isinstance(body, dict) else {}
    inner = shown.get("error")
    if isinstance(inner, dict):
        shown, code = inner, inner.get("code")
        type = type if status == 429 else inner.get("type", type)
    else:
        code = inner
    message = shown.get("message") or shown.get("error_description") or f"The server answered {status}."
    param = shown.get("param")
    return TYPES.get(type if isinstance(type, str) else "", ApiError)(
        str(message),
        status=status,
        type=str(type),
        code=code if isinstance(code, str) else "",
        param=param if isinstance(param, str) else None,
        request_id=headers.get("Request-Id"),
        original=headers.get("Idempotency-Original"),
        same_request=shown.get("same_request") is True,
    )
