"""Compares objects with their events: accounts, invoices, users and orders.

The events of an object must be in an order that is possible, and the row of the object must match its last
event. A column that no event contains, such as the folded email address, must have the value that follows
from other columns.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ledger_engine.core import emails
from ledger_engine.core.records import as_json
from ledger_engine.events import outbox
from ledger_engine.ledger import accounts, invoices, orders, users
from ledger_engine.store import Row, Value
from ledger_engine.store.read_snapshot import AuditUnit
from ledger_engine.verify.faults import Discrepancies

_ROWS_AT_ONCE = 1000
_LETTERS_AT_ONCE = 1_000_000  # characters in rows that are read together; a single row may have more
_REPEATED = "updated"  # an object may have any number of events of this type one after the other
_EVENTS = (
    f"SELECT e.book, e.id, e.object, e.type, {outbox.SHORT_BODY}, e.created FROM events AS e"
    " WHERE e.body IS NOT NULL AND e.object >= :object AND e.object <= :last"
    " AND (e.object, e.book, e.id) > (:object, :book, :id) ORDER BY e.object, e.book, e.id LIMIT :rows"
)


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object: its table, the possible orders of its events, and how its columns are compared.

    `events` is a pattern for the types of the object's events in their order. In the text that must match,
    each event is a word and a comma, for instance `paid,` for `invoice.paid`. `texts` are the columns that
    can be long. `uncompared` are the fields that are not compared with the events. `summed` names the column
    with a sum, and the column with the items that must add up to this sum.
    """

    noun: str
    table: str
    read: Callable[[Row], Any]
    events: re.Pattern[str]
    texts: tuple[str, ...] = ()
    uncompared: frozenset[str] = frozenset()
    summed: tuple[str, str] | None = None


KINDS = (
    ObjectKind(
        "account", "accounts", accounts.read, re.compile("created,"), ("metadata",), frozenset({"balance"})
    ),
    ObjectKind(
        "invoice",
        "invoices",
        invoices.read,
        re.compile("created,(updated,)?(opened,(paid,|voided,)?)?"),
        ("lines", "metadata", "description", "customer"),
        summed=("amount", "lines"),
    ),
    ObjectKind("user", "users", users.read, re.compile("created,(deactivated,restored,)*(deactivated,)?")),
    ObjectKind(
        "order",
        "orders",
        orders.read,
        re.compile("created,(paid,(shipped,)?)?"),
        ("items",),
        summed=("total", "items"),
    ),
)


@dataclass(slots=True)
class _History:
    """The events of one object: the second words of their types in order, and the last event.

    Consecutive events `updated` count as one word.
    """

    words: list[str] = field(default_factory=list)
    last: Row | None = None


def check_objects(unit: AuditUnit, kind: ObjectKind, counts: Counter[str], faults: Discrepancies) -> None:
    """Check all objects of a kind, and count them."""
    after = ""
    counts[kind.table] += 0
    for last in _ends(unit, kind):
        rows = unit.execute(
            f"SELECT x.*, b.book FROM {kind.table} AS x"
            " LEFT JOIN books AS b ON b.project = x.project AND b.livemode = x.livemode"
            " WHERE x.id > :after AND x.id <= :last ORDER BY x.id",
            {"after": after, "last": last},
        )
        histories = _histories(unit, rows[0]["id"], last) if rows else {}
        for row in rows:
            fault = _fault(unit, kind, row, histories.get((row["book"], row["id"]), _History()))
            if fault is not None:
                faults.add(kind.noun, row["id"], f"{kind.noun} {row['id']} {fault}.")
        counts[kind.table] += len(rows)
        if last <= after:
            faults.add("damage", last, f"the rows of {kind.table} are not in order.")
            return
        after = last


def _ends(unit: AuditUnit, kind: ObjectKind) -> Iterator[str]:
    """Yield the last id of each group of objects to read together.

    The longer the texts of the objects are, the fewer objects are in a group.
    """
    letters = " + ".join([f"coalesce(length({name}), 0)" for name in kind.texts]) or "0"
    after, waiting = "", 0
    while rows := unit.execute(
        f"SELECT id, {letters} AS letters FROM {kind.table} WHERE id > :after ORDER BY id LIMIT :rows",
        {"after": after, "rows": _ROWS_AT_ONCE},
    ):
        for number, row in enumerate(rows):
            if number and waiting + row["letters"] > _LETTERS_AT_ONCE:
                yield after
                waiting = 0
            waiting += row["letters"]
            after = row["id"]
        yield after
        waiting = 0


def _histories(unit: AuditUnit, first: str, last: str) -> dict[tuple[int, str], _History]:
    """Return the events of the objects from the id `first` to the id `last`, by book and object."""
    histories: dict[tuple[int, str], _History] = {}
    for row in _events(unit, first, last):
        history = histories.setdefault((row["book"], row["object"]), _History())
        word = row["type"].partition(".")[2]
        if word != _REPEATED or history.words[-1:] != [word]:
            history.words.append(word)
        history.last = row
    return histories


def _events(unit: AuditUnit, first: str, last: str) -> Iterator[Row]:
    """Yield the events of the objects from the id `first` to the id `last`, by object, book and event id."""
    place: dict[str, Value] = {"object": first, "book": -1, "id": ""}
    while rows := unit.execute(_EVENTS, {**place, "last": last, "rows": _ROWS_AT_ONCE}):
        yield from rows
        if len(rows) < _ROWS_AT_ONCE:
            return
        place = {name: rows[-1][name] for name in place}


def _fault(unit: AuditUnit, kind: ObjectKind, row: Row, history: _History) -> str | None:
    """Return the fault of an object as the end of a sentence; None if it has no fault."""
    try:
        object_json = as_json(kind.read(row))
        if not isinstance(object_json.get("metadata", {}), dict):
            return "has text in metadata that is not a JSON object"
    except (ValueError, RecursionError, TypeError):
        return "has text that is not JSON, or an invalid time"
    if kind.summed is not None and row[kind.summed[1]] is not None:
        stated, due = row[kind.summed[0]], _total(object_json[kind.summed[1]])
        if stated != due:
            what = f"its {kind.summed[1]} add up to {'no whole number' if due is None else due}"
            return f"has the {kind.summed[0]} {stated}; {what}"
    last = history.last
    if last is None or not kind.events.fullmatch("".join([f"{word}," for word in history.words])):
        return f"has events that cannot follow each other: {', '.join(history.words) or 'none'}"
    try:
        stated = json.loads(_body(unit, last))["data"]["object"]
        unlike = [name for name in _differing_names(stated, object_json) if name not in kind.uncompared]
        if kind.noun == "user" and row["erased_at"] is not None:
            for event in _events(unit, row["id"], row["id"]):
                if not _is_as_erased(_body(unit, event), event, object_json, bool(row["livemode"])):
                    return f"has the event {event['id']}, which was changed after the user was erased"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return f"has the event {last['id']}, whose body cannot be read"
    if kind.noun == "user":
        unlike += _differing_user_columns(row, unlike)
    if unlike:
        return f"differs from its last event {last['id']} in {', '.join(dict.fromkeys(unlike))}"
    return None


def _differing_names(stated: Mapping[str, Any], due: Mapping[str, Any]) -> list[str]:
    """Return the names in `stated` that `due` does not contain, or for which `due` has another value.

    Names that only `due` contains are not compared, because events of older versions contain fewer fields.
    """
    return [name for name, value in stated.items() if name not in due or due[name] != value]


def _body(unit: AuditUnit, event: Row) -> str:
    return event["body"] or outbox.long_body(unit, event["book"], event["id"])


def _is_as_erased(body: str, event: Row, object_json: Mapping[str, Any], livemode: bool) -> bool:
    """Return whether an event of an erased user has the content that it must have after the user was erased.

    Such an event is checked here and not against the log: its salt is destroyed, so the log cannot prove it.
    """
    message = json.loads(body)
    stated = message["data"]["object"]
    if stated.get("name") is not None or stated.get("email") is not None:
        return True  # the event is not erased yet: its salt still exists, so it is checked against the log
    then = {"status": "active", "deactivated_at": None}
    if event["type"] == "user.deactivated":
        then = {"status": "deactivated", "deactivated_at": message["created"]}
    due = outbox.message(event["id"], event["type"], event["created"], livemode=livemode, subject=stated)
    return not _differing_names(message, due) and not _differing_names(
        stated, {**object_json, "name": None, "email": None, **then}
    )


def _differing_user_columns(row: Row, unlike: list[str]) -> list[str]:
    """Return further wrong columns of a user.

    If the user is not erased, the only further column is `email_folded`, which must follow from the email
    address. If the user is erased, the further columns are the columns of personal data that still have a
    value. In this case also remove `name` and `email` from `unlike`, the list of differences that the caller
    has found: the events of an erased user may still contain the name and the email address.
    """
    if row["erased_at"] is None:
        return [] if row["email_folded"] == emails.fold(row["email"]) else ["email_folded"]
    columns = [name for name in ("name", "email", "email_folded", "password_hash") if row[name] is not None]
    unlike[:] = [name for name in unlike if name not in ("name", "email")]
    return columns


def _total(items: Any) -> int | None:
    """Return the sum of quantity × unit_amount over all items; None if `items` is not a list of such objects.

    A missing quantity is 1 and a missing unit amount is 0, as in `orders.create`.
    """
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        return None
    factors = [(each.get("quantity", 1), each.get("unit_amount", 0)) for each in items]
    if not all(type(factor) is int for pair in factors for factor in pair):
        return None
    total: int = sum(quantity * amount for quantity, amount in factors)
    return total
