"""The errors of requests to a server.

    ClientError
    ├── Unreachable            no answer: refused, reset, timed out, not HTTP
    │   └── Unreadable         an answer that is too large, too slow or compressed
    ├── CannotSend             no request can be made: the address, key or proxy is not valid
    ├── ReadOnly               a change was not sent: the dashboard is read-only
    └── Refusal                an answer that is not 2xx
        ├── Invalid            400, 409, 413, 414 …: `code`, `param`, `message` of the server
        │   └── AlreadyDone    409 duplicate idempotency key: `original` is the first object's id
        ├── Unauthorized       401
        ├── Forbidden          403
        ├── NotFound           404
        │   └── NoLedger       another program listens at this address
        ├── RateLimited        429: `retry_after` seconds
        ├── ServerError        5xx
        └── NotOffered         this server does not have this part beyond the contract
            └── NotThen        it shows only how this is now, and an earlier moment is shown

The text of each is one sentence, to be shown on the screen (after `literal`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

NO_LEDGER = "This is not a ledger's answer. Is the address right?"
_OBJECT_ID = re.compile(r"\b[a-z]{3}_[0-9a-zA-Z]{4,64}\b")


class ClientError(Exception):
    """The base of the errors that a call may raise."""


class ReadOnly(ClientError):
    """The dashboard is read-only; nothing was sent."""


class Unreachable(ClientError):
    """No answer arrived."""


class Unreadable(Unreachable):
    """An answer was not read to its end. Asking again at once will not help."""


class CannotSend(ClientError):
    """Nothing was sent, and trying again will not help."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error body of any of the four shapes (ledger, directory, rate limit, OAuth), in one form."""

    status: int
    code: str
    message: str
    param: str | None
    original: str | None = None


class Refusal(ClientError):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.status = problem.status
        self.code = problem.code
        self.message = problem.message
        self.param = problem.param


class Invalid(Refusal):
    """The request is at fault."""


class AlreadyDone(Invalid):
    """The idempotency key was used before: the object it created is `original` (None if not known)."""

    @property
    def original(self) -> str | None:
        return self.problem.original


class Unauthorized(Refusal):
    pass


class Forbidden(Refusal):
    pass


class NotFound(Refusal):
    pass


class NoLedger(NotFound):
    def __init__(self, problem: Problem) -> None:
        super().__init__(replace(problem, message=NO_LEDGER))


class ServerError(Refusal):
    pass


class NotOffered(Refusal):
    pass


class NotThen(NotOffered):
    """This server shows only the present state of this; nothing was sent."""


class RateLimited(Refusal):
    def __init__(self, problem: Problem, retry_after: float) -> None:
        super().__init__(problem)
        self.retry_after = retry_after


def read_problem(status: int, body: Any, headers: Mapping[str, str]) -> Problem:
    """Return the problem in an error answer; without a known shape it has only the status."""
    code, message, param = "", "", None
    if isinstance(body, dict):
        inner = body.get("error")
        if isinstance(inner, dict):  # the ledger's
            code, message = str(inner.get("code") or inner.get("type") or ""), str(inner.get("message") or "")
            param = inner.get("param") if isinstance(inner.get("param"), str) else None
        elif isinstance(inner, str):  # the directory's, the rate limit's, OAuth's
            code, message = inner, str(body.get("message") or body.get("error_description") or "")
    original = headers.get("idempotency-original")
    if original is None and status == 409:
        found = _OBJECT_ID.search(message)
        original = found.group() if found else None
    return Problem(status, code, message or f"The server answered {status}.", param, original)


def is_problem(body: Any) -> bool:
    """Return whether an error body has one of the shapes that a ledger sends."""
    return isinstance(body, dict) and isinstance(body.get("error"), dict | str)


def refusal(status: int, body: Any, headers: Mapping[str, str]) -> Refusal:
    """Return the exception for an answer that is not 2xx."""
    problem = read_problem(status, body, headers)
    if status == 429:
        return RateLimited(problem, _retry_after(headers))
    if status == 409 and problem.code in ("duplicate_idempotency_key", ""):
        return AlreadyDone(problem)
    kinds: dict[int, type[Refusal]] = {401: Unauthorized, 403: Forbidden, 404: NotFound}
    return kinds.get(status, ServerError if status >= 500 else Invalid)(problem)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds to wait, at least one: with 0 the server would be asked again without end."""
    text = headers.get("retry-after", "")
    is_number = text.isascii() and text.isdigit() and len(text) < 16
    return max(1.0, float(text)) if is_number else 1.0
