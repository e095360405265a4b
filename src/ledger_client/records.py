"""The objects of a ledger as frozen dataclasses. Fields that a class does not have stay in `more`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, get_type_hints

_MOMENTS: tuple[Any, ...] = (datetime, datetime | None)


@dataclass(frozen=True, kw_only=True)
class Record:
    """Amounts are integers in the smallest unit of the currency, times are aware datetimes.

    A field that a server does not send is None.
    """

    more: Mapping[str, Any] = field(default_factory=dict, repr=False)


R = TypeVar("R", bound=Record)


@dataclass(frozen=True, kw_only=True)
class Object(Record):
    """A record with an id."""

    id: str
    created: datetime
    livemode: bool


@dataclass(frozen=True, kw_only=True)
class Account(Object):
    name: str
    currency: str
    balance: int
    metadata: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Balance(Record):
    balance: int
    currency: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Transaction(Object):
    account: str
    amount: int
    type: str
    description: str | None
    balance_after: int
    destination: str | None
    transfer: str | None
    reverses: str | None


@dataclass(frozen=True, kw_only=True)
class Invoice(Object):
    account: str
    customer: str
    currency: str
    amount: int
    lines: list[dict[str, Any]] | None
    due_date: str | None
    description: str | None
    metadata: Mapping[str, str]
    status: str
    number: str | None
    transaction: str | None
    opened_at: datetime | None
    paid_at: datetime | None
    voided_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class User(Object):
    name: str | None
    email: str | None
    role: str
    status: str
    deactivated_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Order(Object):
    user_id: str
    items: list[dict[str, Any]]
    total: int
    status: str
    paid_at: datetime | None
    shipped_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Event(Object):
    type: str
    data: Mapping[str, Any]
    request: str | None


@dataclass(frozen=True, kw_only=True)
class WebhookEndpoint(Object):
    """`secret` is there once: in the answer that made or rolled it."""

    url: str
    events: list[str]
    status: str
    disabled_reason: str | None
    disabled_at: datetime | None
    secret: str | None


@dataclass(frozen=True, kw_only=True)
class Project(Object):
    """`api_key` is there once: in the answer that made the project."""

    name: str
    plan: str
    rate_limit: int | None
    burst: int | None
    overdraft: str
    parent: str | None
    archived_at: datetime | None
    api_key: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class LoggedRequest(Object):
    method: str
    path: str
    query: str
    status: int
    duration_ms: float
    credential: str
    address: str
    error_code: str | None
    idempotency_key: str | None
    request_body: str | None
    response_body: str | None


@dataclass(frozen=True, kw_only=True)
class TokenPair(Record):
    access_token: str
    token_type: str
    expires_in: int
    refresh_token: str | None


@dataclass(frozen=True, kw_only=True)
class Change(Record):
    """An object that something happened to between two moments, as the server showed it at both."""

    id: str
    kind: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    postings: int | None


def read(kind: type[R], shown: Mapping[str, Any]) -> R:
    """Return the record of an object in an answer. Raises ValueError for one that is not as it should be."""
    values = {name: _value(shown.get(name), is_moment) for name, is_moment in _fields(kind).items()}
    more = {name: value for name, value in shown.items() if name not in values and name != "object"}
    return kind(**values, more=more)


def _value(value: Any, is_moment: bool) -> Any:
    if not is_moment or value is None:
        return value
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(f"{value} has no offset")
    return moment


def _fields(kind: type[Record]) -> dict[str, bool]:
    """Return the names of the fields, and whether each is a time."""
    if kind not in _FIELDS:
        hints = get_type_hints(kind)
        names = [each.name for each in dataclasses.fields(kind) if each.name != "more"]
        _FIELDS[kind] = {name: hints[name] in _MOMENTS for name in names}
    return _FIELDS[kind]


_FIELDS: dict[type[Record], dict[str, bool]] = {}
