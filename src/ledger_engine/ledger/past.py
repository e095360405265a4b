"""Objects in the past: their state after the last change at or before a moment.

See docs/decisions.md#looking-back. A moment is a whole millisecond. A change that was made within this
millisecond counts as a change at the moment.

The balance of an account follows from the account's transactions. All other changes are recorded as events,
and each event contains the state of the changed object after the change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ledger_engine.core.errors import NotFound
from ledger_engine.core.ids import first_at
from ledger_engine.core.records import as_json
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, orders, users
from ledger_engine.ledger.accounts import Account
from ledger_engine.store import Row, Unit, pages
from ledger_engine.store.books import BOOK, OF_TENANT
from ledger_engine.store.pages import LIMIT_MAX, LOOKED_AT_MAX, Listing, Page, PageRequest
from ledger_engine.store.rows import short

PastObject = dict[str, Any]  # an object in its past state, in the form of the interface

# Selects the body of the last event about a row's object among the events with ids less than `:changed`.
_PAST_BODY = f"""(SELECT {{body}} FROM events AS e WHERE e.object = {{table}}.id AND e.body IS NOT NULL
    AND e.book = {BOOK} AND e.id < :changed ORDER BY e.id DESC LIMIT 1) AS past_body"""
_SHORT_BODY = short("e.body", pages.SHORT_MAX)


def _past_state(row: Row, read: Callable[[Row], Any]) -> PastObject:
    """Return the past state of a row's object.

    If the ledger stores no event about the object, because the object was copied from another ledger, return
    the current state.
    """
    body = row["past_body"]
    return as_json(read(row)) if body is None else json.loads(body)["data"]["object"]


def _past_user(row: Row) -> PastObject:
    user = _past_state(row, users.read)
    # The name and address of an erased user must not be shown, even if an event still contains them.
    return user if row["erased_at"] is None else {**user, "name": None, "email": None}


def _listing(
    table: str, noun: str, read: Callable[[Row], PastObject], long: tuple[str, ...], short_columns: str
) -> Listing[PastObject]:
    """Return a listing of objects whose rows also contain the body of the last event before a moment."""
    return Listing(
        table,
        noun,
        read,
        columns=f"*, {_PAST_BODY.format(table=table, body='e.body')}",
        long=(*long, "past_body"),
        short_columns=f"{short_columns}, {_PAST_BODY.format(table=table, body=_SHORT_BODY)}",
    )


_INVOICES = _listing(
    "invoices", "invoice", partial(_past_state, read=invoices.read), invoices.LONG, invoices.SHORT_COLUMNS
)
_ORDERS = _listing(
    "orders", "order", partial(_past_state, read=orders.read), orders.LONG, orders.SHORT_COLUMNS
)
_USERS = _listing("users", "user", _past_user, (), "*")


def account(unit: Unit, tenant: Tenant, id: str, at: int) -> Account:
    """Return the account with its balance at the moment `at`.

    Raises NotFound if the account does not exist, or did not exist yet at this moment.
    """
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


def invoice(unit: Unit, tenant: Tenant, id: str, at: int) -> PastObject:
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
) -> Page[PastObject]:
    """Return a page of the invoices that existed at `at`, newest first; filters apply to the past states."""
    return _page(_INVOICES, unit, tenant, request, "inv", at, {"status": status, "account": account})


def order(unit: Unit, tenant: Tenant, id: str, at: int) -> PastObject:
    """Return the order in its state at `at`. Raises NotFound."""
    return _get(_ORDERS, unit, tenant, id, at)


def order_page(
    unit: Unit, tenant: Tenant, request: PageRequest, at: int, *, status: str | None = None
) -> Page[PastObject]:
    """Return a page of the orders that existed at `at`, newest first; `status` is the status at `at`."""
    return _page(_ORDERS, unit, tenant, request, "ord", at, {"status": status})


def user(unit: Unit, tenant: Tenant, id: str, at: int) -> PastObject:
    """Return the user in their state at `at`; fields that are erased now are None. Raises NotFound."""
    return _get(_USERS, unit, tenant, id, at)


def user_page(
    unit: Unit, tenant: Tenant, page: int, per_page: int, at: int, *, role: str | None = None
) -> tuple[users.NumberedPage, list[PastObject]]:
    """Return a numbered page of the users who existed at `at`, and the states of these users at `at`."""
    # A user's role never changes, so the current role serves as the filter.
    numbered_page = users.page(unit, tenant, page, per_page, role=role, until=first_at("usr", at + 1))
    return numbered_page, [user(unit, tenant, record.id, at) for record in numbered_page.items]


def _get(listing: Listing[PastObject], unit: Unit, tenant: Tenant, id: str, at: int) -> PastObject:
    row = unit.first(
        f"SELECT {listing.columns} FROM {listing.table} WHERE {OF_TENANT} AND id = :id AND created <= :at",
        tenant.bind(id=id, at=at, changed=first_at("evt", at + 1)),
    )
    if row is None:
        raise NotFound(listing.noun, id)
    return listing.read(row)


def _page(
    listing: Listing[PastObject],
    unit: Unit,
    tenant: Tenant,
    request: PageRequest,
    prefix: str,
    at: int,
    equal: Mapping[str, str | None],
) -> Page[PastObject]:
    """Return a page of objects in their state at `at`.

    `equal` contains the filters. No index covers past states, so this function reads every object and
    compares it with the filters. The page ends when this function has compared LOOKED_AT_MAX objects. The
    page also ends if the texts of the objects are so long that a read returned only a part of the objects. So
    a page with filters may be shorter than requested although more objects follow.
    """
    until, parameters = first_at(prefix, at + 1), {"changed": first_at("evt", at + 1)}
    filters = {name: value for name, value in equal.items() if value is not None}
    if not filters:
        return listing.page(unit, tenant, request, {}, until=until, values=parameters)
    backwards = request.before is not None
    objects: list[PastObject] = []
    # The first read asks for as many objects as the page needs, because often all of them match.
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
    objects: list[PastObject], cursor: str | None, backwards: bool, *, is_part: bool = False
) -> Page[PastObject]:
    return Page(objects[::-1] if backwards else objects, cursor is not None, cursor, is_part)
