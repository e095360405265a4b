"""Requests, answers, and the rule for sending a request again. This module opens no connection."""

from __future__ import annotations

import json
import math
import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from ledger_client.errors import (
    AlreadyDone,
    ApiError,
    LedgerError,
    NotConnected,
    RateLimited,
    Unreadable,
    error_of,
)
from ledger_client.pages import NOT_A_LEDGER, page_of
from ledger_client.parsing import parsed
from ledger_client.records import Record, read

T = TypeVar("T")
R = TypeVar("R", bound=Record)

ATTEMPTS = 6  # the maximum number of attempts to send a request, including the first
WAIT_MAX_S = 60.0  # the longest wait before an attempt; if a 429 asks for a longer wait, the client gives up


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: its status, its headers and its body. Header names are not case-sensitive."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        """Return the body as text."""
        return self.content.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        """Return the JSON value of the body. Raises Unreadable if the body is not JSON."""
        try:
            return parsed(self.content)
        except ValueError as error:
            raise Unreadable(f"The answer is not JSON: {error}. {NOT_A_LEDGER}", status=self.status) from None

    @property
    def object(self) -> dict[str, Any]:
        """Return the body as a JSON object. Raises Unreadable for any other body."""
        value = self.json
        if not isinstance(value, dict):
            raise Unreadable(f"The answer is not an object. {NOT_A_LEDGER}", status=self.status)
        return value


def require_success(answer: Answer) -> None:
    """Raise a LedgerError if the answer is not a success."""
    if not 200 <= answer.status < 300:
        try:
            body = parsed(answer.content)
        except ValueError:
            body = None
        raise error_of(answer.status, answer.headers, body)


@dataclass
class ApiCall(Generic[T]):
    """One request, which the client may send several times. `result_of` turns the answer into a result.

    After a lost answer or a 5xx other than 501, the client repeats a GET, a request with an idempotency key,
    and a PATCH without `if_match`. A POST with a key takes effect once, however often the client sends it.
    The client does not repeat a PATCH with `if_match`: if the first attempt took effect, the object no longer
    matches. A request that the rate limit refused had no effect, so the client repeats such a
    request, whatever its method, unless the server asks for a wait of more than a minute.
    """

    result_of: Callable[[Answer], T]
    method: str
    path: str
    body: Mapping[str, Any] | bytes | None = None
    query: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    if_match: str | None = None
    is_anonymous: bool = False  # sent without a credential and without an idempotency key
    is_form: bool = False  # the body is a form for OAuth, not JSON
    attempts: int = 0
    is_unanswered: bool = False  # an attempt got no answer or a 5xx, so this attempt may have taken effect

    def __post_init__(self) -> None:
        self.headers = {name.lower(): value for name, value in self.headers.items()}
        self._use(self.key or self.headers.get("idempotency-key"))
        if self.if_match is not None:
            self.headers = {**self.headers, "if-match": self.if_match}
        self.query = {name: _text(value) for name, value in self.query.items() if value is not None}
        if isinstance(self.body, Mapping):
            self.body = {name: value for name, value in self.body.items() if value is not UNSET}

    def make_repeatable(self) -> None:
        """Add a new idempotency key if this is a POST without a key, and not a request for tokens."""
        if self.method == "POST" and not self.is_anonymous and self.key is None:
            self._use(str(uuid.uuid4()))

    def _use(self, key: str | None) -> None:
        self.key = key
        if key is not None:
            self.headers = {**self.headers, "idempotency-key": key}

    @cached_property
    def content(self) -> tuple[bytes | None, str]:
        """Return the body to send and its media type.

        Raises ValueError for a number that JSON cannot express, such as NaN, and TypeError for an object that
        JSON cannot express.
        """
        if self.body is None or isinstance(self.body, bytes):
            return self.body, "application/json"
        if self.is_form:
            return urlencode(self.body).encode(), "application/x-www-form-urlencoded"
        return json.dumps(self.body, ensure_ascii=False, allow_nan=False).encode(), "application/json"

    def wait_after(self, error: LedgerError, attempts: int) -> float | None:
        """Count an attempt that ended with `error`, and return the seconds to wait before the next attempt.

        Return None if no attempt may follow. `attempts` is the largest number of attempts, including the
        first.
        """
        self.attempts += 1
        is_lost = isinstance(error, NotConnected) and not isinstance(error, Unreadable)
        has_failed = isinstance(error, ApiError) and error.status != 501
        self.is_unanswered |= is_lost or has_failed
        is_plain_patch = self.method == "PATCH" and "if-match" not in self.headers
        may_repeat = self.key is not None or self.method == "GET" or is_plain_patch
        is_refused = isinstance(error, RateLimited) and error.retry_after <= WAIT_MAX_S
        if self.attempts >= attempts or not (is_refused or (may_repeat and (is_lost or has_failed))):
            return None
        wait = random.uniform(0.5, 1) * min(WAIT_MAX_S, 0.5 * math.pow(2, self.attempts))
        return max(error.retry_after, wait) if isinstance(error, RateLimited) else wait

    def made_before(self, error: LedgerError) -> list[str]:
        """Return the ids of the objects that an earlier attempt of this call made, if `error` names them."""
        is_own = isinstance(error, AlreadyDone) and self.is_unanswered and error.same_request
        return [*error.originals] if is_own and isinstance(error, AlreadyDone) else []


def record(kind: type[R], value: Any, etag: str | None = None) -> R:
    """Return the record of this kind for a JSON value. Raises Unreadable if the value is malformed."""
    try:
        return read(kind, value, etag)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise Unreadable(f"The answer is not a valid {kind.__name__}: {str(error)[:200]}") from None


def as_it_is(answer: Answer) -> Answer:
    """Return the answer itself, for a call whose result is the answer."""
    return answer


def text_of(answer: Answer) -> str:
    """Return the text of the answer."""
    return answer.text


def one(kind: type[R]) -> Callable[[Answer], R]:
    """Return a function that makes one record of this kind from an answer."""
    return lambda answer: record(kind, answer.json, answer.headers.get("ETag"))


def many(kind: type[R]) -> Callable[[Answer], list[R]]:
    """Return a function that makes a list of records of this kind from an answer."""
    return lambda answer: [record(kind, row) for row in page_of(answer.json, "cursor").rows]


def path_to(path: str, *parts: str) -> str:
    """Return `path` with more parts. A part may contain any characters: they are escaped."""
    return "/".join((path, *map(partial(quote, safe=""), parts)))


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()  # a field with this value is not sent; None would send null and clear the field


def body_of(**fields: Any) -> dict[str, Any]:
    """Return a body without the fields that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time needs an offset: use an aware datetime")
        return value.isoformat()
    return value
