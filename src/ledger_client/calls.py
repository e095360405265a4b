"""A request, its answer and what comes next, without a connection: what both clients do alike."""

from __future__ import annotations

import math
import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import httpx

from ledger_client.errors import Conflict, LedgerError, NotConnected, error_of
from ledger_client.event_stream import ServerSentEvent
from ledger_client.parsing import parsed
from ledger_client.records import Event, Record, read
from ledger_client.webhooks import NotSigned, verify

R = TypeVar("R", bound=Record)

ATTEMPTS = 5
WAIT_MAX_S = 60.0
SECONDS_MAX = 60.0  # for one answer


@dataclass
class Call:
    """One request, which may take several attempts.

    A POST has an idempotency key, so that repeating it has one effect. What has no key and is no GET or
    PATCH is repeated only when it was refused for its rate.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    keyed: bool = True
    attempts: int = 0
    unanswered: bool = False  # an attempt had no answer, so it may have had its effect

    def __post_init__(self) -> None:
        if self.method == "POST" and self.keyed and self.key is None:
            self.key = str(uuid.uuid4())
        self.query = {name: _text(value) for name, value in self.query.items() if value is not None}

    def request(self, client: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Return the request of the next attempt."""
        self.attempts += 1
        body = None if self.body is None else {k: v for k, v in self.body.items() if v is not UNSET}
        headers = {} if self.key is None else {"Idempotency-Key": self.key}
        return client.build_request(self.method, self.path, json=body, params=self.query, headers=headers)

    def wait_after(self, outcome: httpx.Response | httpx.HTTPError) -> float | None:
        """Return the seconds until the next attempt, None when this outcome is the last."""
        if self.attempts >= ATTEMPTS:
            return None
        may_repeat = self.key is not None or self.method in ("GET", "PATCH")
        if not may_repeat and (isinstance(outcome, httpx.HTTPError) or outcome.status_code != 429):
            return None
        if isinstance(outcome, httpx.HTTPError):
            if not isinstance(outcome, httpx.TransportError):
                return None
            self.unanswered = True
        elif outcome.status_code == 503:
            self.unanswered = True
        elif outcome.status_code != 429:
            return None
        asked = "" if isinstance(outcome, httpx.HTTPError) else outcome.headers.get("Retry-After", "")
        seconds = float(asked) if asked.isascii() and asked.isdigit() and len(asked) < 6 else 0.0
        if seconds > WAIT_MAX_S:
            return None
        return max(seconds, random.uniform(0.5, 1) * min(WAIT_MAX_S, 0.25 * math.pow(2, self.attempts)))

    def result(self, answer: httpx.Response) -> Any:
        """Return the JSON of a success. Raises LedgerError."""
        try:
            body = parsed(answer.content) if answer.content else None
        except ValueError as error:
            if answer.is_success:
                raise NotConnected(f"The answer is not JSON: {error}", status=answer.status_code) from None
            body = None
        if answer.is_success:
            return body
        raise error_of(answer.status_code, answer.headers, body)

    def made_before(self, error: LedgerError) -> str | None:
        """Return the id that an earlier attempt of this call made, None for any other refusal."""
        if isinstance(error, Conflict) and self.unanswered and error.same_request:
            return error.original
        return None


class Session:
    """One connection to the live stream: its first message has the secret that signs the others."""

    def __init__(self) -> None:
        self._secret = ""

    def event_of(self, sent: ServerSentEvent) -> Event | None:
        """Return the event of a message, None for the first one. Raises NotConnected for any other."""
        try:
            shown = parsed(sent.data)
            if sent.event == "session":
                self._secret = shown["secret"]
                return None
            body = shown["body"].encode()
            verify(body, {"Ledger-Signature": shown["signature"]}, self._secret)
            return read(Event, parsed(body))
        except (ValueError, TypeError, KeyError, AttributeError, NotSigned) as error:
            raise NotConnected(f"The stream has a message that is no signed event: {error}") from None


def record(kind: type[R], shown: Any) -> R:
    """Return the record of an answer. Raises NotConnected where the server answers something else."""
    try:
        return read(kind, shown)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise NotConnected(f"The answer is no {kind.__name__}: {str(error)[:200]}") from None


def page_of(shown: Any, cursor: str) -> tuple[list[Any], Any]:
    """Return the objects of a page and the cursor of the next one, None after the last.

    Raises NotConnected where the server answers something else.
    """
    try:
        if cursor == "page":
            following = shown["page"] + 1 if shown["page"] < shown["total_pages"] else None
        else:
            following = shown["next_cursor"]
        str(following).encode()  # half a character cannot be sent
        if isinstance(shown["data"], list) and isinstance(following, str | int | None):
            return shown["data"], following
    except (TypeError, KeyError, UnicodeError):
        pass
    raise NotConnected("The answer is no page of a list.")


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()  # a field that is not sent: null would clear it


def body_of(**fields: Any) -> dict[str, Any]:
    """Return a body without the fields that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time needs an offset: use an aware datetime")
        return value.isoformat()
    return value


def no_answer(error: httpx.HTTPError) -> NotConnected:
    """Return the exception for a request without an answer."""
    return NotConnected(str(error) or type(error).__name__)
