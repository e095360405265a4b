"""Differences between two moments: which objects changed, and their states at both moments.

See docs/decisions.md#past-diff. First, `next_rows` reads all changes of the period, in steps of some
milliseconds, and `ChangeCount` counts them. Then `next_changes` reads a page of these changes, in parts of a
limited size, because each change may contain two objects that are as large as a request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Annotated, Any, NamedTuple

from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.ids import ChangedId, first_at
from ledger_engine.core.records import OneOf, as_json, as_text
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, past
from ledger_engine.ledger.past import PastObject
from ledger_engine.store import Unit, pages
from ledger_engine.store.books import OF_BOOK
from ledger_engine.store.pages import PageRequest

ROWS_AT_ONCE = 1_000  # rows of the period that one step counts, which takes some milliseconds


@dataclass(slots=True)
class Change:
    """An object that changed between two moments.

    `before` is None for an object that did not exist at the first moment. `after` is None for an object that
    has an event before the second moment, and a `created` after it. `postings` is the number of
    an account's transactions between the two moments, and None for an object of another kind.
    """

    OBJECT = "change"

    kind: Annotated[str, OneOf("account", "invoice", "user", "order")]
    id: ChangedId
    before: PastObject | None
    after: PastObject | None
    postings: int | None


@dataclass(slots=True)
class Summary:
    """How many transactions were posted, and how many objects of each kind changed."""

    postings: int
    accounts: int
    invoices: int
    users: int
    orders: int


# Maps the prefix of an id to the kind of the object, and to the function that returns the object in its past
# state.
_OBJECTS: dict[str, tuple[str, Callable[[Unit, Tenant, str, int], Any]]] = {
    "acc": ("account", lambda *args: as_json(past.account(*args))),
    "inv": ("invoice", past.invoice),
    "usr": ("user", past.user),
    "ord": ("order", past.order),
}


@dataclass(slots=True)
class ChangeCount:
    """A count, in progress, of the objects that changed after the moment `start` and up to the moment `end`.

    `changed` has an entry for each prefix of ids, such as `acc`. The entry maps the id of each changed object
    to the number of transactions on that object, which is 0 for an object with an event but no transaction.
    The next rows to count are the rows with ids greater than `after`. When all rows of the period are
    counted, `after` is None.
    """

    start: int
    end: int
    after: str | None = field(init=False)
    changed: dict[str, Counter[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.after = first_at("txn", self.start + 1)
        self.changed = {prefix: Counter() for prefix in _OBJECTS}

    def add(self, rows: PeriodRows) -> None:
        """Count the next rows of the period."""
        if rows.are_postings:
            self.changed["acc"].update(rows.objects)
        else:
            for id in rows.objects:
                self.changed[_prefix(id)].setdefault(id, 0)
        self.after = rows.after


class PeriodRows(NamedTuple):
    """The ids of the objects to which some rows of a period belong.

    The rows are transactions if `are_postings`, and otherwise events. `after` is the new value of
    `ChangeCount.after`.
    """

    objects: list[str]
    are_postings: bool
    after: str | None


def next_rows(unit: Unit, tenant: Tenant, count: ChangeCount) -> PeriodRows:
    """Return the next rows of the period: first all its transactions, and after these all its events.

    A book's rows are stored in the order of their ids, so rows outside the period cost no time.
    """
    assert count.after is not None, "all rows are counted"
    prefix = _prefix(count.after)
    are_postings = prefix == "txn"
    select = (
        "SELECT account, id FROM transactions WHERE"
        if are_postings
        else "SELECT object, id FROM events WHERE body IS NOT NULL AND"
    )
    rows = unit.execute_together(
        f"{select} {OF_BOOK} AND id > :after AND id < :beyond ORDER BY id LIMIT :rows",
        ("object", "id"),
        tenant.bind(after=count.after, beyond=first_at(prefix, count.end + 1), rows=ROWS_AT_ONCE),
    )
    after = rows[-1][1] if len(rows) == ROWS_AT_ONCE else None
    if after is None and are_postings:
        after = first_at("evt", count.start + 1)
    return PeriodRows([row[0] for row in rows], are_postings, after)


class ChangedPage(NamedTuple):
    """A page of changes, before the states of the changed objects are read.

    `postings` maps the id of each changed object, in the order of the page, to the value of
    `Change.postings`. `next_cursor` is None if no change follows the page. `summary` counts the changes of
    all pages.
    """

    start: int
    end: int
    postings: dict[str, int | None]
    next_cursor: str | None
    summary: Summary


def changed_page(unit: Unit, tenant: Tenant, count: ChangeCount, request: PageRequest) -> ChangedPage:
    """Return a page of the counted changes.

    The order is accounts, invoices, users, orders, and within a kind the newest object comes first. A
    credential that may not read users gets no changes of users. Raises InvalidRequest `invalid_cursor`.
    """
    changed = dict(count.changed)
    if not tenant.may_see_users():
        changed["usr"] = Counter()
    if request.after is not None:
        _require_cursor(unit, tenant, request.after, count.end)
    ids = _first_after(request.after, changed, request.limit + 1)
    postings = {id: changed["acc"].get(id) for id in ids[: request.limit]}
    next_cursor = ids[request.limit - 1] if len(ids) > request.limit else None
    summary = Summary(sum(changed["acc"].values()), *map(len, changed.values()))
    return ChangedPage(count.start, count.end, postings, next_cursor, summary)


def next_changes(unit: Unit, tenant: Tenant, page: ChangedPage, skipped: int) -> list[str]:
    """Return the JSON texts of the page's changes, without the first `skipped` changes.

    The result ends with the first change at which the texts have `pages.TOGETHER_MAX` letters or more in
    total, or else with the last change of the page.
    """
    ids = list(page.postings)[skipped:]
    past_accounts = _past_accounts(unit, tenant, ids, (page.start, page.end))
    texts: list[str] = []
    letters_left = pages.TOGETHER_MAX
    for id in ids:
        if letters_left <= 0:
            break
        kind = _OBJECTS[_prefix(id)][0]
        if kind == "account":
            before, after = (objects.get(id) for objects in past_accounts)
        else:
            before, after = (_find_past(unit, tenant, id, at) for at in (page.start, page.end))
        texts.append(as_text(Change(kind, id, before, after, page.postings[id])))
        letters_left -= len(texts[-1])
    return texts


def _past_accounts(
    unit: Unit, tenant: Tenant, ids: Sequence[str], moments: Sequence[int]
) -> list[dict[str, PastObject]]:
    """Return for each moment the accounts among these ids that existed at this moment, in their past state.

    One SQL statement reads the accounts, and one statement for each moment reads all balances. More
    statements would take too long, because a page of a difference may contain 100 accounts.
    """
    records = accounts.with_ids(unit, tenant, [id for id in ids if _prefix(id) == "acc"])
    account_ids = [record.id for record in records]
    past_accounts = []
    for at in moments:
        balances = accounts.balances_before(unit, tenant, account_ids, at + 1)
        existing = [record for record in records if record.created <= at]
        past_accounts.append(
            {record.id: as_json(replace(record, balance=balances[record.id])) for record in existing}
        )
    return past_accounts


def _first_after(cursor: str | None, changed: Mapping[str, Mapping[str, int]], count: int) -> list[str]:
    """Return up to `count` of the changed ids after the cursor, in the order of `changed_page`."""
    prefixes = list(changed)
    ids: list[str] = []
    if cursor is not None:
        prefixes = prefixes[prefixes.index(_prefix(cursor)) :]
        ids = nlargest(count, (id for id in changed[prefixes.pop(0)] if id < cursor))
    for prefix in prefixes:
        ids += nlargest(count - len(ids), changed[prefix])
    return ids


def _require_cursor(unit: Unit, tenant: Tenant, id: str, end: int) -> None:
    if _prefix(id) not in _OBJECTS or _find_past(unit, tenant, id, end) is None:
        raise InvalidRequest("invalid_cursor", "cursor must be the id of a change.", "cursor")


def _find_past(unit: Unit, tenant: Tenant, id: str, at: int) -> PastObject | None:
    """Return an object of any kind in its state at the moment `at`; None if it did not exist yet."""
    try:
        record: PastObject = _OBJECTS[_prefix(id)][1](unit, tenant, id, at)
    except NotFound:
        return None
    return record


def _prefix(id: str) -> str:
    return id.partition("_")[0]
