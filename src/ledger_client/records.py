"""The objects of a ledger as frozen dataclasses. `more` contains the fields that a class does not define."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from ledger_client.addresses import is_key

# The values that the interface defines today, for type checkers. A newer server may send other values, which
# a record contains unchanged.
TransactionType = Literal["credit", "debit"]
InvoiceStatus = Literal["draft", "open", "paid", "void"]
UserStatus = Literal["active", "deactivated"]
OrderStatus = Literal["open", "paid", "shipped"]
EndpointStatus = Literal["enabled", "disabled"]
DeliveryStatus = Literal["pending", "succeeded", "failed"]
Role = Literal["member", "admin", "owner"]
Scope = Literal["read:projects", "write:projects", "read:users", "admin:billing"]
Plan = Literal["free", "pro", "enterprise"]
Mode = Literal["test", "live"]
Overdraft = Literal["allow", "refuse"]

_MOMENTS: tuple[Any, ...] = (datetime, datetime | None)


@dataclass(frozen=True, kw_only=True)
class Record:
    """The base class. Amounts are integers in the smallest unit of the currency; times are aware datetimes.

    A field that a server does not send is None. `etag` names the state of the object, for `if_match=`.
    Objects from a list come without an `etag`.
    """

    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
    etag: str | None = field(default=None, repr=False, compare=False)


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
class Currency(Record):
    """A currency that an account may have; an amount of 1 is its smallest unit, such as a cent."""

    code: str
    name: str
    decimals: int


@dataclass(frozen=True, kw_only=True)
class Balance(Record):
    balance: int
    currency: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class StatementLine(Record):
    """One transaction of a statement; `amount` is negative for a debit."""

    transaction: str
    date: datetime
    description: str | None
    amount: int
    running_balance: int


@dataclass(frozen=True, kw_only=True)
class Statement(Record):
    account: str
    currency: str
    period_start: datetime
    period_end: datetime
    opening_balance: int
    closing_balance: int
    last_transaction: str | None
    lines: list[StatementLine]


@dataclass(frozen=True, kw_only=True)
class Transaction(Object):
    account: str
    amount: int
    type: TransactionType
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
    status: InvoiceStatus
    number: str | None
    transaction: str | None
    opened_at: datetime | None
    paid_at: datetime | None
    voided_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class User(Object):
    name: str | None
    email: str | None
    role: Role
    status: UserStatus
    deactivated_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Order(Object):
    user_id: str
    items: list[dict[str, Any]]
    total: int
    status: OrderStatus
    paid_at: datetime | None
    shipped_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Event(Object):
    type: str
    data: Mapping[str, Any]
    request: str | None


@dataclass(frozen=True, kw_only=True)
class WebhookEndpoint(Object):
    """`secret` is set only in the answer to `create`, `restore` and `roll_secret`."""

    url: str
    events: list[str]
    status: EndpointStatus
    disabled_reason: Literal["asked", "gone", "failing"] | None
    disabled_at: datetime | None
    secret: str | None


@dataclass(frozen=True, kw_only=True)
class Attempt(Record):
    """One attempt of a delivery; `status` is the receiver's HTTP status, None without an answer."""

    number: int
    attempted_at: datetime
    status: int | None
    error: str | None
    latency_ms: int
    request: Mapping[str, Any]
    response: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Delivery(Object):
    endpoint: str
    event: str
    event_type: str
    status: DeliveryStatus
    next_attempt_at: datetime | None
    attempts: list[Attempt]


@dataclass(frozen=True, kw_only=True)
class SkippedEndpoint(Record):
    """An endpoint to which a resend sends nothing, because the endpoint is disabled or deleted."""

    endpoint: str
    reason: Literal["disabled", "deleted"]


@dataclass(frozen=True, kw_only=True)
class Resent(Record):
    """The deliveries that a resend started or queued; a queued delivery waits for the attempt under way."""

    data: list[Delivery]
    skipped: list[SkippedEndpoint]


@dataclass(frozen=True, kw_only=True)
class ResentFailed(Record):
    """The number of deliveries that the ledger sends again, and the endpoints that it skips."""

    deliveries: int
    skipped: list[SkippedEndpoint]


@dataclass(frozen=True, kw_only=True)
class ApiKey(Object):
    """`key` is set only in the answer to `create` and `roll`."""

    name: str | None
    role: Role
    scopes: list[Scope] | None
    last4: str
    revoked_at: datetime | None
    key: str | None


@dataclass(frozen=True, kw_only=True)
class Project(Object):
    """`api_key` is set only in the answer to `create`."""

    name: str
    plan: Plan
    rate_limit: int | None
    burst: int | None
    overdraft: Overdraft
    parent: str | None
    archived_at: datetime | None
    api_key: ApiKey | None


@dataclass(frozen=True, kw_only=True)
class Billing(Object):
    plan: Plan
    rate_limit: int
    burst: int
    stored_objects: int
    stored_objects_max: int | None
    webhook_endpoints_max: int | None


@dataclass(frozen=True, kw_only=True)
class Caller(Object):
    """The credential of a request, and its rights."""

    kind: Literal["api_key", "access_token", "oauth_token"]
    user: str | None
    project: str
    plan: Plan
    mode: Mode
    role: Role
    scopes: list[Scope] | None
    rate_limit: int
    burst: int
    stored_objects_max: int | None
    webhook_endpoints_max: int | None
    expires_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Health(Record):
    ok: bool
    version: str
    notice: str | None


@dataclass(frozen=True, kw_only=True)
class LoggedRequest(Object):
    method: str
    path: str
    query: str
    status: int
    duration_ms: float
    credential_id: str
    credential: str
    address: str
    error_code: str | None
    idempotency_key: str | None
    traceparent: str | None
    request_body: str | None
    response_body: str | None
    events: list[str] | None


@dataclass(frozen=True, kw_only=True)
class TokenPair(Record):
    """An access token, and a refresh token that gives the next pair, once. `scope` is set only for apps."""

    access_token: str
    token_type: str = "Bearer"
    expires_in: int = 3600
    refresh_token: str | None = None
    scope: str | None = None


@dataclass(frozen=True, kw_only=True)
class Change(Record):
    """An object that changed between two times, with its state at each of the two times."""

    id: str
    kind: Literal["account", "invoice", "user", "order"]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    postings: int | None


def read(kind: type[R], body: Mapping[str, Any], etag: str | None = None) -> R:
    """Return the record for a JSON object. Raises ValueError, TypeError, AttributeError or OverflowError."""
    fields = _fields(kind)
    values = {name: convert(body.get(name)) for name, convert in fields.items()}
    more = {name: value for name, value in body.items() if name not in fields and name != "object"}
    return kind(**values, more=more, etag=etag)


def token_pair(answer: Any) -> TokenPair:
    """Return the tokens in an answer.

    Raises ValueError if the answer has no access token, or an access token that a header cannot carry.
    """
    pair = read(TokenPair, answer if isinstance(answer, dict) else {})
    if not isinstance(pair.access_token, str) or not is_key(pair.access_token):
        raise ValueError("The answer contains no access token.")
    has_refresh = isinstance(pair.refresh_token, str) and is_key(pair.refresh_token)
    lasts = pair.expires_in if isinstance(pair.expires_in, int) and pair.expires_in > 0 else 3600
    refresh_token = pair.refresh_token if has_refresh else None
    return dataclasses.replace(pair, refresh_token=refresh_token, expires_in=lasts)


def _fields(kind: type[Record]) -> dict[str, Callable[[Any], Any]]:
    """Return the fields of a class, each with the function that converts its JSON value."""
    if kind not in _FIELDS:
        hints = get_type_hints(kind)
        names = [member.name for member in dataclasses.fields(kind) if member.name not in ("more", "etag")]
        _FIELDS[kind] = {name: _converter(hints[name]) for name in names}
    return _FIELDS[kind]


_FIELDS: dict[type[Record], dict[str, Callable[[Any], Any]]] = {}


def _converter(hint: Any) -> Callable[[Any], Any]:
    if hint in _MOMENTS:
        return _moment
    for inner in (hint, *get_args(hint)):
        if isinstance(inner, type) and issubclass(inner, Record):
            is_list = str(hint).startswith("list[")
            return partial(_inner, inner, is_list)
    return lambda value: value


def _inner(kind: type[Record], is_list: bool, value: Any) -> Any:
    if value is None:
        return None
    return [read(kind, item) for item in value] if is_list else read(kind, value)


def _moment(value: str | None) -> datetime | None:
    moment = None if value is None else datetime.fromisoformat(value)
    if moment is not None and moment.tzinfo is None:
        raise ValueError(f"{value} has no offset")
    return moment
