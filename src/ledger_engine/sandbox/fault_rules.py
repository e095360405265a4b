"""The rules of faults: which match and action may be set, and the answers of requests that are to fail."""

from __future__ import annotations

from typing import Any, cast

from ledger_engine.core.errors import (
    AuthenticationError,
    Conflict,
    InvalidRequest,
    LedgerError,
    PermissionDenied,
)
from ledger_engine.events import outbox
from ledger_engine.http.errors import CODES, RateLimited
from ledger_engine.sandbox.faults import Action, Match

RATE_LIMITED = 429
_OTHER = {4: ("invalid_request", ("invalid_value",)), 5: ("api_error", ("internal_error",))}


class _NotThere(LedgerError):
    type = "not_found"


_KINDS: dict[str, type[LedgerError]] = {
    kind.type: kind
    for kind in (InvalidRequest, AuthenticationError, PermissionDenied, _NotThere, Conflict, LedgerError)
}


def codes_of(status: int) -> tuple[str, ...]:
    """Return the codes that an error with this status can have, the usual one first."""
    if status == RATE_LIMITED:
        return ("rate_limited",)
    return CODES.get(status, _OTHER[status // 100])[1]


def fault_error(status: int, code: str | None, fault: str) -> LedgerError:
    """Return the error that a request ends with because of a fault."""
    if status == RATE_LIMITED:
        return RateLimited(1)
    type, codes = CODES.get(status, _OTHER[status // 100])
    return _KINDS[type](code or codes[0], f"The fault {fault} caused this answer.")


METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS")
_OF_REQUESTS = ("method", "path", "key", "header")
_OF_WEBHOOKS = ("endpoint", "type")


def checked(match: dict[str, Any], action: dict[str, Any]) -> tuple[Match, Action]:
    """Return the match and the action as they are kept. Raises InvalidRequest naming what is at fault."""
    _check_action(action)
    is_webhook = action["webhook"] is not None
    for name in _OF_REQUESTS if is_webhook else _OF_WEBHOOKS:
        if match[name] is not None:
            what = "requests, not for webhooks" if is_webhook else "webhooks, not for requests"
            raise _wrong(f"{name} is for {what}.", f"match.{name}")
    _check_match(match)
    return cast(Match, match), cast(Action, action)


def _check_action(action: dict[str, Any]) -> None:
    given = [name for name in ("status", "cut", "webhook") if action[name] is not None]
    if action["delay_ms"] is not None and action["webhook"] is None:
        given.append("delay_ms")
    if len(given) != 1:
        raise _wrong("Give one of status, delay_ms, cut and webhook.", "action")
    if action["jitter_ms"] is not None and given != ["delay_ms"]:
        raise _wrong("jitter_ms needs delay_ms.", "action.jitter_ms")
    if action["delay_ms"] is not None and action["webhook"] not in (None, "delay", "reorder"):
        raise _wrong("delay_ms needs the webhook fault delay or reorder.", "action.delay_ms")
    if action["code"] is None:
        return
    if action["status"] is None:
        raise _wrong("code needs status.", "action.code")
    codes = codes_of(action["status"])
    if action["code"] not in codes:
        raise _wrong(f"With {action['status']} code must be one of {', '.join(codes)}.", "action.code")


def _check_match(match: dict[str, Any]) -> None:
    if match["method"] is not None:
        match["method"] = match["method"].upper()
        if match["method"] not in METHODS:
            raise _wrong(f"method must be one of {', '.join(METHODS)}.", "match.method")
    path = match["path"]
    if path is not None and (not path.startswith("/") or "*" in path[:-1]):
        raise _wrong("path must begin with a slash, and may have one * at its end.", "match.path")
    if match["key"] is not None and not match["key"].startswith(("key_", "app_")):
        raise _wrong("key must be the id of an API key or app, not its value.", "match.key")
    if match["endpoint"] is not None and not match["endpoint"].startswith("whe_"):
        raise _wrong("endpoint must be the id of a webhook endpoint.", "match.endpoint")
    if match["header"] is not None and not match["header"].partition(":")[0].strip():
        raise _wrong("header must be a name, or a name, a colon and a value.", "match.header")
    if match["type"] is not None and match["type"] not in outbox.KINDS:
        raise _wrong(f"type must be one of {', '.join(outbox.KINDS)}.", "match.type")


def _wrong(message: str, param: str) -> InvalidRequest:
    return InvalidRequest("invalid_value", message, param)
