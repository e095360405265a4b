"""Applying the records that a pull has read: with their ids and times, set-wise, in turns.

Each turn is one commit that leaves the books consistent. Balances are computed from the transactions and
compared with the `balance_after` that the source shows.

What the contract leaves out of a record is filled in: a time that is not shown is that of the pull.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ledger_engine.access import quotas as limits
from ledger_engine.core import emails
from ledger_engine.core.clock import DAY, parse_moment
from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.ids import is_id, moment_of
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import dumps
from ledger_engine.core.tenant import ROLES
from ledger_engine.events import outbox
from ledger_engine.ledger import invoices, orders, transactions
from ledger_engine.ledger.accounts import stored_description
from ledger_engine.ledger.balances import Balances
from ledger_engine.store import Row, Unit, Value
from ledger_engine.tools.pull.remote import PullFailed
from ledger_engine.tools.pull.staging import Book, newest

_AHEAD_MAX = DAY  # of this machine's clock


class Unusable(Exception):
    """A record that a ledger of this program cannot hold; the text says why."""


class Fields:
    """The fields of one record. Each method raises Unusable for a value that is no such thing."""

    def __init__(self, kind: str, id: str, record: Mapping[str, Any], now: int) -> None:
        self.id = id
        self.record = record
        self._kind = kind
        self._now = now

    @property
    def created(self) -> int:
        """When the record was made, in milliseconds."""
        return self.time("created", self._now)

    def time(self, name: str, otherwise: int) -> int:
        """Return a time in milliseconds, `otherwise` where it is not shown."""
        found = self.time_or_none(name)
        return otherwise if found is None else found

    def time_or_none(self, name: str) -> int | None:
        text = self.text_or_none(name)
        try:
            return None if text is None else parse_moment(text, name)
        except InvalidRequest as error:
            raise self.wrong(name, "no time") from error

    def text(self, name: str, otherwise: str | None = None) -> str:
        found = self.text_or_none(name)
        if found is None:
            found = otherwise
        if found is None:
            raise self.wrong(name, "missing")
        return found

    def text_or_none(self, name: str) -> str | None:
        value = self.record.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "no text")
        return value

    def one_of(self, name: str, values: tuple[str, ...], otherwise: str | None = None) -> str:
        found = self.text(name, otherwise)
        if found not in values:
            raise self.wrong(name, f"not one of {', '.join(values)}")
        return found

    def amount(self, name: str, least: int = 0) -> int:
        value = self.record.get(name)
        if type(value) is not int or not least <= value <= MAX_AMOUNT:
            raise self.wrong(name, f"not an integer from {least:,} to {MAX_AMOUNT:,}")
        return value

    def integer_or_none(self, name: str) -> int | None:
        value = self.record.get(name)
        if value is not None and type(value) is not int:
            raise self.wrong(name, "not an integer")
        return value

    def texts(self, name: str) -> dict[str, str]:
        """Return an object whose values are texts, {} where it is not shown."""
        value = self.record.get(name) or {}
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise self.wrong(name, "not an object with string values")
        return value

    def objects(self, name: str) -> list[dict[str, Any]] | None:
        value = self.record.get(name)
        if value is not None and not (
            isinstance(value, list) and all(isinstance(each, dict) for each in value)
        ):
            raise self.wrong(name, "not a list of objects")
        return value

    def wrong(self, name: str, what: str) -> Unusable:
        """Return the error for a field; `what` completes the sentence."""
        return Unusable(f"{self._kind} {self.id}: its {name} is {what}")


def id_of(record: Mapping[str, Any], prefix: str, now: int) -> str:
    """Return the id of a record. Raises Unusable for one that this program could not have made.

    The order of ids must be that of time, as all lists of a copy are in the order of ids.
    """
    id = record.get("id")
    if not isinstance(id, str) or not is_id(id, prefix):
        raise Unusable(f"the id {str(id)[:64]!r} has not the form {prefix}_ and 26 letters and digits")
    if moment_of(id) > now + _AHEAD_MAX:
        raise Unusable(f"the id {id} is not in the order of time, or is from the future")
    return id


def total_of(items: list[dict[str, Any]]) -> int | None:
    """Return the sum of quantity × unit_amount as an order has it; None where there is none."""
    total = 0
    for item in items:
        quantity, amount = item.get("quantity", 1), item.get("unit_amount", 0)
        if type(quantity) is not int or type(amount) is not int:
            return None
        total += quantity * amount
    return total


def load(text: str) -> dict[str, Any]:
    """Return a record that was kept as text."""
    record: dict[str, Any] = json.loads(text)
    return record


TURN = 5_000  # records in one commit
ALL = 2**62  # rows; a limit below 0 means this on SQLite only
_ROW = tuple[Value, ...]
R = TypeVar("R")


@dataclass(slots=True)
class Applied:
    """What was applied: new records by kind, and what could not be held, with the reason.

    `shown` are the balances of new accounts as the source showed them, and `unproven` the accounts of
    transactions that do not report the balance after them.
    """

    new: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, str] = field(default_factory=dict)
    shown: dict[str, int] = field(default_factory=dict)
    unproven: set[str] = field(default_factory=set)

    def usable(self, read: Iterable[Fields], make: Callable[[Fields], R]) -> list[R]:
        """Return what `make` makes of each record; those that it cannot use are left out."""
        made = []
        for fields in read:
            try:
                made.append(make(fields))
            except Unusable as error:
                self.left_out[fields.id] = str(error)
        return made

    def add(self, other: Applied) -> None:
        """Add what a turn has applied."""
        self.new.update(other.new)
        self.left_out.update(other.left_out)
        self.shown.update(other.shown)
        self.unproven |= other.unproven


def apply_turn(unit: Unit, book: Book, kind: str) -> Applied | None:
    """Apply the next records of a kind, the oldest first; return None when there are none.

    Raises PullFailed for an account or a transaction that the copy cannot hold; any other is left out.
    """
    whole = kind in ("users", "invoices")  # they change together: an address and a number are taken once
    rows = _kept(unit, book, kind, "", ALL if whole else TURN)
    if not rows:
        return None
    if kind == "transactions":
        rows = _with_other_sides(unit, book, rows)
    read = [Fields(kind.removesuffix("s"), row["id"], load(row["record"]), unit.now) for row in rows]
    try:
        applied = _APPLY[kind](unit, book, read)
    except Unusable as error:
        raise PullFailed(f"The source cannot be copied: {error}.") from error
    unit.execute(
        "DELETE FROM pulled WHERE book = :book AND kind = :kind AND id <= :last",
        book.bind(kind=kind, last=rows[-1]["id"]),
    )
    return applied


def numbers_have_a_gap(unit: Unit, book: Book) -> bool:
    """Return whether an invoice got its number while the list was read, so that it shows another without it.

    Such a list is read again.
    """
    records = [load(row["record"]) for row in _kept(unit, book, "invoices", "", ALL)]
    numbers = [record["number"] for record in records if isinstance(record.get("number"), str)]
    return len(numbers) != max((_number(number) for number in numbers), default=0)


def _kept(unit: Unit, book: Book, kind: str, after: str, rows: int) -> list[Row]:
    return unit.execute(
        "SELECT id, record FROM pulled WHERE book = :book AND kind = :kind AND id > :after"
        " ORDER BY id LIMIT :rows",
        book.bind(kind=kind, after=after, rows=rows),
    )


def _with_other_sides(unit: Unit, book: Book, rows: list[Row]) -> list[Row]:
    """Return the rows, and further ones until both sides of each transfer are among them.

    Raises PullFailed when a transfer has one side only: a copy of it would not sum to zero.
    """
    rows = list(rows)
    sides = Counter(load(row["record"]).get("transfer") for row in rows)
    while halves := [transfer for transfer, count in sides.items() if transfer is not None and count == 1]:
        (*more,) = _kept(unit, book, "transactions", rows[-1]["id"], 1)
        if not more:
            raise PullFailed(f"The source cannot be copied: it shows one side of the transfer {halves[0]}.")
        rows += more
        sides[load(more[0]["record"]).get("transfer")] += 1
    return rows


def _accounts(unit: Unit, book: Book, read: list[Fields]) -> Applied:
    applied = Applied()
    known = newest(unit, book, "accounts")
    rows: list[_ROW] = []
    for fields in read:
        if fields.id <= known:
            continue
        currency = fields.text("currency").upper()
        metadata = dumps(fields.texts("metadata"))
        project, livemode = book.tenant.project, book.tenant.livemode
        rows.append((fields.id, project, livemode, fields.text("name"), currency, metadata, fields.created))
        applied.shown[fields.id] = fields.integer_or_none("balance") or 0
    columns = ("id", "project", "livemode", "name", "currency", "metadata", "created")
    unit.insert_many("accounts", columns, rows)
    return _counted(unit, book, "accounts", len(rows), applied)


def _transactions(unit: Unit, book: Book, read: list[Fields]) -> Applied:
    applied = Applied()
    known = newest(unit, book, "transactions")
    balances = unit.cached(Balances, book.tenant)
    balances.change()
    balances.read(fields.text("account") for fields in read)
    rows: list[_ROW] = []
    made: set[str] = set()
    for fields in read:
        if fields.id <= known:
            continue
        account, amount = fields.text("account"), fields.amount("amount", 1)
        type = fields.one_of("type", transactions.TYPES)
        change = amount if type == "credit" else -amount
        transfer = fields.text_or_none("transfer")
        destination = None if transfer is None else fields.text("destination")
        try:
            balance = balances.movable(book.tenant, account, change, "")
            settlement = None
            if transfer is None:
                settlement = balances.movable_settlement(balance.currency, -change, "")
            if destination is not None:
                balances.of(destination)
            balances.move(account, balance, change, None, settlement)
        except (InvalidRequest, NotFound) as error:
            raise Unusable(f"transaction {fields.id}: {error.message.rstrip('.')}") from error
        shown = fields.integer_or_none("balance_after")
        if shown is None:
            applied.unproven.add(account)
        elif shown != balance.amount:
            raise Unusable(
                f"transaction {fields.id} has the balance_after {shown} for {account}, but the transactions"
                f" add up to {balance.amount}"
            )
        reverses = fields.text_or_none("reverses")
        if reverses is not None and reverses not in made and not _is_posted(unit, book, reverses):
            raise fields.wrong("reverses", "not shown")
        made.add(fields.id)
        description, long_description = stored_description(fields.text_or_none("description"))
        rows.append(
            (book.number, fields.id, account, amount, type, description, balance.amount, destination,
             transfer, reverses, fields.created, long_description)
        )  # fmt: skip
    unit.insert_many("transactions", _TRANSACTION, rows)
    return _counted(unit, book, "transactions", len(rows), applied)


def _is_posted(unit: Unit, book: Book, id: str) -> bool:
    posted = unit.first("SELECT 1 FROM transactions WHERE book = :book AND id = :id", book.bind(id=id))
    return posted is not None


def _users(unit: Unit, book: Book, read: list[Fields]) -> Applied:
    applied = Applied()
    rows = applied.usable(read, lambda fields: _user(book, fields))
    # Those who are deactivated first: one of them may have had the address of one who is active now.
    rows.sort(key=lambda row: row["status"] == "active")
    return _stored(unit, book, "users", rows, applied)


def _user(book: Book, fields: Fields) -> dict[str, Value]:
    status = fields.one_of("status", ("active", "deactivated"), "active")
    name, email = fields.text_or_none("name"), fields.text_or_none("email")
    if (name is None or email is None) and status == "active":
        raise fields.wrong("name or email", "missing")
    ended = None if status == "active" else fields.time("deactivated_at", fields.created)
    erased = None if name is not None and email is not None else (ended or 0) + 30 * DAY
    return book.tenant.bind(
        id=fields.id,
        name=name if erased is None else None,
        email=email if erased is None else None,
        email_folded=None if email is None or erased is not None else emails.fold(email),
        role=fields.one_of("role", ROLES, "member"),
        status=status,
        deactivated_at=ended,
        erased_at=erased,
        created=fields.created,
    )


def _orders(unit: Unit, book: Book, read: list[Fields]) -> Applied:
    applied = Applied()
    users = _known(unit, book, "users")
    rows = applied.usable(read, lambda fields: _order(book, fields, users))
    return _stored(unit, book, "orders", rows, applied)


def _order(book: Book, fields: Fields, users: set[str]) -> dict[str, Value]:
    items, user = fields.objects("items") or [], fields.text("user_id")
    if user not in users:
        raise fields.wrong("user", "not shown")
    total = total_of(items)
    if total is None or fields.record.get("total", total) != total:
        raise fields.wrong("total", "not the sum of its items")
    status = fields.one_of("status", orders.STATUSES)
    return book.tenant.bind(
        id=fields.id,
        user_id=user,
        items=dumps(items),
        total=total,
        status=status,
        paid_at=None if status == "open" else fields.time("paid_at", fields.created),
        shipped_at=fields.time("shipped_at", fields.created) if status == "shipped" else None,
        created=fields.created,
    )


def _invoices(unit: Unit, book: Book, read: list[Fields]) -> Applied:
    applied = Applied()
    accounts = _known(unit, book, "accounts")
    rows = applied.usable(read, lambda fields: _invoice(unit, book, fields, accounts))
    applied = _stored(unit, book, "invoices", rows, applied)
    unit.execute(
        "UPDATE counters SET invoice_numbers = (SELECT count(number) FROM invoices"
        " WHERE project = :project AND livemode = :livemode)"
        " WHERE project = :project AND livemode = :livemode",
        book.tenant.bind(),
    )
    return applied


def _invoice(unit: Unit, book: Book, fields: Fields, accounts: set[str]) -> dict[str, Value]:
    status = fields.one_of("status", invoices.STATUSES)
    account, lines = fields.text("account"), fields.objects("lines")
    if account not in accounts:
        raise fields.wrong("account", "not shown")
    if (fields.text_or_none("number") is None) != (status == "draft"):
        raise fields.wrong("number", f"not that of an invoice which is {status}")
    if lines is not None and total_of(lines) != fields.record.get("amount"):
        raise fields.wrong("amount", "not the sum of its lines")
    payment = fields.text("transaction") if status == "paid" else None
    if payment is not None and not _is_posted(unit, book, payment):
        raise fields.wrong("transaction", "not shown")
    return book.tenant.bind(
        id=fields.id,
        account=account,
        customer=fields.text("customer"),
        currency=fields.text("currency"),
        amount=fields.amount("amount"),
        lines=None if lines is None else dumps(lines),
        due_date=fields.text_or_none("due_date"),
        description=fields.text_or_none("description"),
        metadata=dumps(fields.texts("metadata")),
        status=status,
        number=fields.text_or_none("number"),
        payment=payment,
        opened_at=None if status == "draft" else fields.time("opened_at", fields.created),
        paid_at=fields.time("paid_at", fields.created) if status == "paid" else None,
        voided_at=fields.time("voided_at", fields.created) if status == "void" else None,
        created=fields.created,
    )


def _events(unit: Unit, book: Book, read: list[Fields]) -> Applied:
    applied = Applied()
    known = newest(unit, book, "events")
    posted = _posted(unit, book, read)
    new = (fields for fields in read if fields.id > known)
    rows = applied.usable(new, lambda fields: _event(book, fields, posted))
    unit.insert_many("events", ("book", "id", "type", "object", "body", "request", "created"), rows)
    applied.new["events"] += len(rows)
    return applied


def _event(book: Book, fields: Fields, posted: dict[str, int]) -> _ROW:
    kind, subject, created = fields.text("type"), _subject(fields), fields.created
    if subject is None or not isinstance(subject.get("id"), str):
        raise fields.wrong("data", "not about an object")
    body = None
    # The event of a posting that shows all of it is rendered from the transaction, as in any ledger.
    if kind != outbox.POSTING or posted.get(subject["id"]) != created or "reverses" not in subject:
        livemode = book.tenant.livemode
        body = dumps(outbox.message(fields.id, kind, created, livemode=livemode, subject=subject))
    return book.number, fields.id, kind, subject["id"], body, fields.text_or_none("request"), created


def _subject(fields: Fields) -> dict[str, Any] | None:
    """Return the object that an event is about, None where there is none."""
    data = fields.record.get("data")
    found = data.get("object") if isinstance(data, dict) else None
    return found if isinstance(found, dict) else None


def _posted(unit: Unit, book: Book, read: list[Fields]) -> dict[str, int]:
    """Return the times of the transactions that these events are about, by id."""
    about = [_subject(fields) for fields in read if fields.record.get("type") == outbox.POSTING]
    ids = [str(each.get("id")) for each in about if each is not None]
    if not ids:
        return {}
    rows = unit.execute(
        "SELECT id, created FROM transactions WHERE book = :book AND id >= :first AND id <= :last",
        book.bind(first=min(ids), last=max(ids)),
    )
    return {row["id"]: row["created"] for row in rows}


def _known(unit: Unit, book: Book, table: str) -> set[str]:
    rows = unit.execute(
        f"SELECT id FROM {table} WHERE project = :project AND livemode = :livemode", book.tenant.bind()
    )
    return {row["id"] for row in rows}


def _stored(unit: Unit, book: Book, table: str, rows: list[dict[str, Value]], applied: Applied) -> Applied:
    """Store rows, each with all columns; what is known already is changed where it was."""
    known = _known(unit, book, table)
    columns = [*rows[0]] if rows else []
    changed = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in ("id", "created"))
    unit.execute_many(
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(f':{name}' for name in columns)})"
        f" ON CONFLICT (id) DO UPDATE SET {changed}",
        rows,
    )
    return _counted(unit, book, table, sum(row["id"] not in known for row in rows), applied)


def _counted(unit: Unit, book: Book, kind: str, new: int, applied: Applied) -> Applied:
    """Count the new records as stored objects."""
    limits.count_stored(unit, book.tenant, new)
    applied.new[kind] += new
    return applied


def _number(text: str) -> int:
    digits = text.removeprefix("INV-")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else -1


_TRANSACTION = (
    "book", "id", "account", "amount", "type", "description", "balance_after", "destination", "transfer",
    "reverses", "created", "long_description",
)  # fmt: skip
# In the order in which the kinds are applied: what a record refers to is there before it.
_APPLY: dict[str, Callable[[Unit, Book, list[Fields]], Applied]] = {
    "accounts": _accounts,
    "transactions": _transactions,
    "users": _users,
    "orders": _orders,
    "invoices": _invoices,
    "events": _events,
}
KINDS = tuple(_APPLY)
