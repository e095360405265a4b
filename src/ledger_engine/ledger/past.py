"""Objects in the past: their state after the last change made at or before a moment.

See docs/decisions.md#looking-back. A moment is the end of a millisecond. The balance of an account follows
from its transactions. All other changes are in the events, each of which contains the object's state at its
time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import nlargest
from typing import Annotated, Any, NamedTuple

from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.ids import ChangedId, first_at
from ledger_engine.core.records import OneOf, as_json
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, orders, users
from ledger_engine.ledger.accounts import Account
from ledger_engine.store import Row, Unit, pages
from ledger_engine.store.books import BOOK, OF_BOOK, OF_TENANT
from ledger_engine.store.pages import LIMIT_MAX, LOOKED_AT_MAX, Listing, Page, PageRequest
from ledger_engine.store.rows import short

ObjectThen = dict[str, Any]  # an object in the form of the interface
ROWS_AT_ONCE = 1_000  # rows of a period in one step, which takes some milliseconds

# Selects the body of the last event about the object of a row, before the id `:changed`.
_BODY_THEN = f"""(SELECT {{body}} FROM events AS e WHERE e.object = {{table}}.id AND e.body IS NOT NULL
    AND e.book = {BOOK} AND e.id < :changed ORDER BY e.id DESC LIMIT 1) AS body_then"""
_SHORT_BODY = short("e.body", pages.SHORT_MAX)


def _then(row: Row, read: Callable[[Row], Any]) -> ObjectThen:
    """Return the earlier state of a row's object.

    If no event is stored, as in a copy, return the current state.
    """
    body = row["body_then"]
    return as_json(read(row)) if body is None else json.loads(body)["data"]["object"]


def _user_then(row: Row) -> ObjectThen:
    user = _then(row, users.read)
    # Erasing events takes some time, so the fields of an erased user are removed here too.
    return user if row["erased_at"] is None else {**user, "name": None, "email": None}


def _listing(
    table: str, noun: str, read: Callable[[Row], ObjectThen], long: tuple[str, ...], short_columns: str
) -> Listing[ObjectThen]:
    return Listing(
        table,
        noun,
        read,
        columns=f"*, {_BODY_THEN.format(table=table, body='e.body')}",
        long=(*long, "body_then"),
        short_columns=f"{short_columns}, {_BODY_THEN.format(table=table, body=_SHORT_BODY)}",
    )


_INVOICES = _listing(
    "invoices", "invoice", partial(_then, read=invoices.read), invoices.LONG, invoices.SHORT_COLUMNS
)
_ORDERS = _listing("orders", "order", partial(_then, read=orders.read), orders.LONG, orders.SHORT_COLUMNS)
_USERS = _listing("users", "user", _user_then, (), "*")


def account(unit: Unit, tenant: Tenant, id: str, at: int) -> Account:
    """Return the account with its balance at `at`. Raises NotFound."""
    record = accounts.get(unit, tenant, id)
    if record.created > at:
        raise NotFound("account", id)
    return replace(record, balance=accounts.balance_before(unit, tenant, id, at + 1))


def account_page(unit: Unit, tenant: Tenant, request: PageRequest, at: int) -> Page[Account]:
    """Return a page of the accounts that existed at `at`, newest first."""
    page = accounts.page(unit, tenant, request, until=first_at("acc", at + 1))
    balances = accounts.balances_before(unit, tenant, [record.id for record in page.items], at + 1)
    items = [replace(record, balance=balances[record.id]) for record in page.items]
    return replace(page, items=items)


def invoice(unit: Unit, tenant: Tenant, id: str, at: int) -> ObjectThen:
    """Return the invoice in its state at `at`. Raises NotFound."""
    return _get(_INVOICES, unit, tenant, id, at)


def invoice_page(
    unit: Unit,
    tenant: Tenant,
    request: PageRequest,
    at: int,
    *,
    status: str | None = None,
    account: str | None = None,
) -> Page[ObjectThen]:
    """Return a page of the invoices that existed at `at`, newest first, filtered by their state then."""
    return _page(_INVOICES, unit, tenant, request, "inv", at, {"status": status, "account": account})


def order(unit: Unit, tenant: Tenant, id: str, at: int) -> ObjectThen:
    """Return the order in its state at `at`. Raises NotFound."""
    return _get(_ORDERS, unit, tenant, id, at)


def order_page(
    unit: Unit, tenant: Tenant, request: PageRequest, at: int, *, status: str | None = None
) -> Page[ObjectThen]:
    """Return a page of the orders that existed at `at`, newest first, filtered by their `status` then."""
    return _page(_ORDERS, unit, tenant, request, "ord", at, {"status": status})


def user(unit: Unit, tenant: Tenant, id: str, at: int) -> ObjectThen:
    """Return the user in their state at `at`, without fields that are erased by now. Raises NotFound."""
    return _get(_USERS, unit, tenant, id, at)


def user_page(
    unit: Unit, tenant: Tenant, page: int, per_page: int, at: int, *, role: str | None = None
) -> tuple[users.NumberedPage, list[ObjectThen]]:
    """Return a numbered page of the users who existed at `at`, and their states at that time."""
    # A user's role never changes, so the current role serves as the filter.
    numbered_page = users.page(unit, tenant, page, per_page, role=role, until=first_at("usr", at + 1))
    return numbered_page, [user(unit, tenant, record.id, at) for record in numbered_page.items]


def _get(listing: Listing[ObjectThen], unit: Unit, tenant: Tenant, id: str, at: int) -> ObjectThen:
    row = unit.first(
        f"SELECT {listing.columns} FROM {listing.table} WHERE {OF_TENANT} AND id = :id AND created <= :at",
        tenant.bind(id=id, at=at, changed=first_at("evt", at + 1)),
    )
    if row is None:
        raise NotFound(listing.noun, id)
    return listing.read(row)


def _page(
    listing: Listing[ObjectThen],
    unit: Unit,
    tenant: Tenant,
    request: PageRequest,
    prefix: str,
    at: int,
    equal: Mapping[str, str | None],
) -> Page[ObjectThen]:
    """Return a page of objects in their state at `at`.

    No index covers earlier states, so a filter is compared with every object. So a page with a filter may end
    early: after LOOKED_AT_MAX objects, or after the first part of a page whose rest was not read.
    """
    until, parameters = first_at(prefix, at + 1), {"changed": first_at("evt", at + 1)}
    filters = {name: value for name, value in equal.items() if value is not None}
    if not filters:
        return listing.page(unit, tenant, request, {}, until=until, values=parameters)
    backwards = request.before is not None
    objects: list[ObjectThen] = []
    # First read as many objects as the page needs, which is enough if most objects match the filter.
    step, looked_at = replace(request, limit=min(request.limit + 1, LIMIT_MAX)), 0
    while looked_at < LOOKED_AT_MAX:
        page = listing.page(unit, tenant, step, {}, until=until, values=parameters)
        looked_at += len(page.items)
        for item in reversed(page.items) if backwards else page.items:
            if len(objects) == request.limit:
                return _in_order(objects, objects[-1]["id"], backwards)
            if all(item[name] == value for name, value in filters.items()):
                objects.append(item)
        if page.next_cursor is None:
            return _in_order(objects, None, backwards)
        cursor = page.next_cursor
        if page.is_part and len(objects) < request.limit:
            return _in_order(objects, cursor, backwards, is_part=bool(objects))
        step = replace(step, limit=max(1, min(LIMIT_MAX, LOOKED_AT_MAX - looked_at)))
        step = replace(step, before=cursor) if backwards else replace(step, after=cursor)
    return _in_order(objects, step.before or step.after, backwards)


def _in_order(
    objects: list[ObjectThen], cursor: str | None, backwards: bool, *, is_part: bool = False
) -> Page[ObjectThen]:
    return Page(objects[::-1] if backwards else objects, cursor is not None, cursor, is_part)


@dataclass(slots=True)
class Change:
    """An object that changed between two moments.

    `before` is None for an object that did not exist yet. `after` is None for an object with
    a `created` later than the second moment, although its event is earlier. `postings` is the number of an
    account's transactions between the two moments, and None for other objects.
    """

    OBJECT = "change"

    kind: Annotated[str, OneOf("account", "invoice", "user", "order")]
    id: ChangedId
    before: ObjectThen | None
    after: ObjectThen | None
    postings: int | None


@dataclass(slots=True)
class Summary:
    """How many transactions were posted, and how many objects of each kind changed."""

    postings: int
    accounts: int
    invoices: int
    users: int
    orders: int


_OBJECTS: dict[str, tuple[str, Callable[[Unit, Tenant, str, int], Any]]] = {
    "acc": ("account", lambda *named: as_json(account(*named))),
    "inv": ("invoice", invoice),
    "usr": ("user", user),
    "ord": ("order", order),
}


@dataclass(slots=True)
class Counted:
    """A count in progress: the objects that changed after the moment `start` and up to `end`.

    `changed` maps each prefix of ids to the changed objects, and each object to its number of transactions,
    which is 0 for an object with an event but no transaction. `after` is the id of the last counted row; None
    when all rows are counted.
    """

    start: int
    end: int
    after: str | None
    changed: dict[str, Counter[str]]

    def add(self, part: Part) -> None:
        """Count the rows of the next part."""
        if part.are_postings:
            self.changed["acc"].update(part.objects)
        else:
            for id in part.objects:
                self.changed[_prefix(id)].setdefault(id, 0)
        self.after = part.after


class Part(NamedTuple):
    """The objects in some rows of a period, all transactions or all events; `after` is as in `Counted`."""

    objects: list[str]
    are_postings: bool
    after: str | None


def begin_to_count(start: int, end: int) -> Counted:
    """Return a new count of the period, in which no object is counted yet."""
    after = first_at("txn", start + 1)
    return Counted(start, end, after, {prefix: Counter() for prefix in _OBJECTS})


def next_part(unit: Unit, tenant: Tenant, counted: Counted) -> Part:
    """Return the next rows of the period: first all its transactions, then all its events.

    A book's rows are stored in the order of their ids, so only the rows of the period cost time.
    """
    assert counted.after is not None, "all parts are counted"
    prefix = _prefix(counted.after)
    are_postings = prefix == "txn"
    select = (
        "SELECT account, id FROM transactions WHERE"
        if are_postings
        else "SELECT object, id FROM events WHERE body IS NOT NULL AND"
    )
    rows = unit.execute_together(
        f"{select} {OF_BOOK} AND id > :after AND id < :beyond ORDER BY id LIMIT :rows",
        ("object", "id"),
        tenant.bind(after=counted.after, beyond=first_at(prefix, counted.end + 1), rows=ROWS_AT_ONCE),
    )
    after = rows[-1][1] if len(rows) == ROWS_AT_ONCE else None
    if after is None and are_postings:
        after = first_at("evt", counted.start + 1)
    return Part([row[0] for row in rows], are_postings, after)


def changes(
    unit: Unit, tenant: Tenant, counted: Counted, request: PageRequest
) -> tuple[Page[Change], Summary]:
    """Return a page of the counted changes, and the numbers of all of them.

    The order is accounts, invoices, users, orders; within a kind the newest come first. A credential that may
    not read users gets no changes of users. Raises InvalidRequest `invalid_cursor`.
    """
    start, end = counted.start, counted.end
    changed = dict(counted.changed)
    if not tenant.may_see_users():
        changed["usr"] = Counter()
    if request.after is not None:
        _require_cursor(unit, tenant, request.after, end)
    ids = _first_after(request.after, changed, request.limit + 1)
    accounts_then = _accounts_then(unit, tenant, ids[: request.limit], (start, end))
    items = []
    for id in ids[: request.limit]:
        kind = _OBJECTS[_prefix(id)][0]
        if kind == "account":
            before, after = (objects.get(id) for objects in accounts_then)
        else:
            before, after = (_then_or_none(unit, tenant, id, at) for at in (start, end))
        items.append(Change(kind, id, before, after, changed["acc"][id] if kind == "account" else None))
    more = len(ids) > request.limit
    summary = Summary(sum(changed["acc"].values()), *map(len, changed.values()))
    return Page(items, more, items[-1].id if more else None), summary


def _accounts_then(
    unit: Unit, tenant: Tenant, ids: Sequence[str], moments: Sequence[int]
) -> list[dict[str, ObjectThen]]:
    """Return, for each moment, the accounts with these ids that existed then, in their state at that moment.

    One statement reads the accounts, and one statement for each moment reads all balances, because a page of
    a difference may contain 100 accounts.
    """
    records = accounts.with_ids(unit, tenant, [id for id in ids if _prefix(id) == "acc"])
    account_ids = [record.id for record in records]
    accounts_then = []
    for at in moments:
        balances = accounts.balances_before(unit, tenant, account_ids, at + 1)
        existing = [record for record in records if record.created <= at]
        accounts_then.append(
            {record.id: as_json(replace(record, balance=balances[record.id])) for record in existing}
        )
    return accounts_then


def _first_after(cursor: str | None, changed: Mapping[str, Mapping[str, int]], count: int) -> list[str]:
    """Return up to `count` of the changed ids after the cursor, in the order of `changes`."""
    prefixes = list(changed)
    ids: list[str] = []
    if cursor is not None:
        prefixes = prefixes[prefixes.index(_prefix(cursor)) :]
        ids = nlargest(count, (id for id in changed[prefixes.pop(0)] if id < cursor))
    for prefix in prefixes:
        ids += nlargest(count - len(ids), changed[prefix])
    return ids


def _require_cursor(unit: Unit, tenant: Tenant, id: str, end: int) -> None:
    if _prefix(id) not in _OBJECTS or _then_or_none(unit, tenant, id, end) is None:
        raise InvalidRequest("invalid_cursor", "cursor must be the id of a change.", "cursor")


def _then_or_none(unit: Unit, tenant: Tenant, id: str, at: int) -> ObjectThen | None:
    """Return an object of any kind in its state at `at`; None if it did not exist yet."""
    try:
        record: ObjectThen = _OBJECTS[_prefix(id)][1](unit, tenant, id, at)
    except NotFound:
        return None
    return record


def _prefix(id: str) -> str:
    return id.partition("_")[0]
