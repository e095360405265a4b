"""The steps of a data set's history, in order, each with its time.

A data set consists of entries (`reading.py`), and each entry leads to one or more steps. Each entry has its
own random numbers, whose seed is the place of the entry in the file. So the same file always gives the same
history, and an entry that is added at the end of a list changes no other entry's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from ledger_engine.core.clock import DAY, iso
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.ids import IdSource
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, orders, transactions, users
from ledger_engine.ledger.invoices import NewInvoice
from ledger_engine.ledger.orders import NewOrder
from ledger_engine.ledger.transactions import NewTransaction, Postings
from ledger_engine.store import Columns, H, Parameters, Row, Unit, Value
from ledger_engine.tools.seed.reading import (
    ONCE,
    AccountEntry,
    BadDataSet,
    DataSet,
    Entry,
    IntegerRange,
    InvoiceEntry,
    OrderEntry,
    RepeatedEntry,
    TransactionEntry,
    UserEntry,
)

_NOTHING: Parameters = {}


class UnitInThePast:
    """A `Unit` for steps in the past.

    The caller sets `now` to the time of each step before the step runs. New ids contain this time.
    """

    def __init__(self, unit: Unit, ids: IdSource) -> None:
        self.now = 0
        self._unit = unit
        self._ids = ids

    def execute(self, sql: str, parameters: Parameters = _NOTHING, /) -> list[Row]:
        return self._unit.execute(sql, parameters)

    def first(self, sql: str, parameters: Parameters = _NOTHING, /) -> Row | None:
        return self._unit.first(sql, parameters)

    def execute_together(
        self, sql: str, columns: Columns, parameters: Parameters = _NOTHING, /
    ) -> list[Sequence[Any]]:
        return self._unit.execute_together(sql, columns, parameters)

    def execute_many(self, sql: str, rows: list[dict[str, Value]], /) -> None:
        self._unit.execute_many(sql, rows)

    def insert_many(self, table: str, columns: Columns, rows: Sequence[Sequence[Value]], /) -> None:
        self._unit.insert_many(table, columns, rows)

    def cached(self, kind: type[H], tenant: Tenant, /) -> H:
        return self._unit.cached(kind, tenant)

    def new_id(self, prefix: str) -> str:
        return self._ids.new(prefix, self.now)

    def announce(self, topic: str) -> None:
        self._unit.announce(topic)


STEPS_MAX = 1_000_000
_MINUTE = 60_000
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip


@dataclass(slots=True)
class SeedHistory:
    """The ids of the objects that earlier steps created, for later steps that refer to these objects.

    `accounts` and `users` contain ids by the `ref` in the data set. `made` contains the ids of transactions,
    invoices and orders by their `key`: the place of the entry and the number of its repetition, such as
    `invoices[2] 3`. Each step works on `unit`, for `tenant`.
    """

    unit: UnitInThePast = field(init=False)
    tenant: Tenant = field(init=False)
    accounts: dict[str, str] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeedStep:
    """One change, which `happen` makes.

    `at` is its time in milliseconds from the start of the history. `path` is the place of its entry in the
    data set, such as `accounts[3]`.
    """

    at: int
    path: str
    happen: Callable[[SeedHistory], None]


Happening = tuple[int, Callable[[SeedHistory], None]]  # the time in milliseconds, and what happens then


def steps_of(data_set: DataSet) -> list[SeedStep]:
    """Return all steps, the earliest first. Raises BadDataSet if there are more than STEPS_MAX."""
    steps: list[SeedStep] = []
    for path, entry in data_set.entries.items():
        random = Random(path)
        for number, moment in enumerate(_moments(entry, data_set.days, random), 1):
            for at, happen in _steps(entry, moment, number, f"{path} {number}", random):
                # Leave out steps after the end of the history. For instance, an invoice that would be paid
                # later stays open.
                if at < data_set.days * DAY:
                    steps.append(SeedStep(at, path, happen))
                if len(steps) > STEPS_MAX:
                    raise BadDataSet(path, f"the data set has more than {STEPS_MAX:,} steps.")
    steps.sort(key=lambda step: step.at)
    return steps


def _moments(entry: Entry, days: int, random: Random) -> Iterator[int]:
    until, every, per_day = entry.day, 1, ONCE
    if isinstance(entry, RepeatedEntry) and entry.repeat is not None:
        until, every, per_day = entry.repeat.until or days, entry.repeat.every, entry.repeat.per_day
    for day in range(entry.day, until + 1, every):
        for _ in range(per_day.draw(random)):
            second = int(random.random() * 60_000) if entry.time.least < entry.time.most else 0
            yield (day - 1) * DAY + entry.time.draw(random) * _MINUTE + second


def _steps(entry: Entry, at: int, number: int, key: str, random: Random) -> Iterator[Happening]:
    """Yield the steps of one repetition of an entry; `key` is the new object's key in `SeedHistory.made`."""
    match entry:
        case AccountEntry():
            yield at, partial(_open_account, entry)
        case UserEntry():
            yield from _user(entry, at, random)
        case TransactionEntry():
            yield from _transaction(entry, at, number, key, random)
        case InvoiceEntry():
            yield from _invoice(entry, at, number, key, random)
        case OrderEntry():
            yield from _order(entry, at, key, random)


def _time_after(at: int, days: IntegerRange, random: Random) -> int:
    """Return the time that is `days` days and up to three hours after `at`."""
    return at + days.draw(random) * DAY + int((1 + random.random() * 180) * _MINUTE)


# Accounts and users


def _open_account(entry: AccountEntry, history: SeedHistory) -> None:
    new = accounts.NewAccount(entry.name, entry.currency, entry.metadata)
    history.accounts[entry.ref] = accounts.create(history.unit, history.tenant, new).id


def _user(entry: UserEntry, at: int, random: Random) -> Iterator[Happening]:
    def join(history: SeedHistory) -> None:
        new = users.NewUser(entry.name, entry.email, entry.role)
        history.users[entry.ref] = users.create(history.unit, history.tenant, new).id

    def leave(history: SeedHistory) -> None:
        users.deactivate(history.unit, history.tenant, history.users[entry.ref])

    yield at, join
    if entry.deactivate_after is not None:
        yield _time_after(at, entry.deactivate_after, random), leave


# Transactions


def _transaction(
    entry: TransactionEntry, at: int, number: int, key: str, random: Random
) -> Iterator[Happening]:
    account = _draw(entry.account, random)
    destination = _draw(entry.destination, random) if entry.destination else None
    amount = entry.amount.draw(random) if entry.amount else None
    description = _draw(entry.description, random) if entry.description else None

    def post(history: SeedHistory) -> None:
        unit = history.unit
        postings = Postings(unit, history.tenant)
        id = _account_id(history, account, "account")
        other = None if destination is None else _account_id(history, destination, "destination")
        sum_moved = postings.balance(id) if amount is None else amount
        if amount is None and sum_moved <= 0:
            return  # the account is empty
        text = _fill_in(description, number, unit.now)
        new = NewTransaction(id, sum_moved, entry.type, text, other)
        transaction = postings.add(unit.new_id("txn"), new, "")
        history.made[key] = transaction.id
        fee = 0 if entry.fee is None else (sum_moved * entry.fee.percent + 50) // 100
        if entry.fee is not None and fee:
            to = _account_id(history, entry.fee.to, "fee.to")
            new = NewTransaction(id, fee, "debit", entry.fee.description, to)
            postings.add(unit.new_id("txn"), new, "")

    def reverse(history: SeedHistory) -> None:
        if key in history.made:
            transactions.reverse(history.unit, history.tenant, history.made[key])

    yield at, post
    if entry.reverse is not None and random.random() * 100 < entry.reverse.share:
        yield _time_after(at, entry.reverse.after, random), reverse


# Invoices and orders


def _invoice(entry: InvoiceEntry, at: int, number: int, key: str, random: Random) -> Iterator[Happening]:
    customer = _draw(entry.customer, random)
    amount = entry.amount.draw(random) if entry.amount else None
    lines = [
        invoices.InvoiceLine(
            description=line.description,
            quantity=line.quantity.draw(random),
            unit_amount=line.unit_amount.draw(random),
        )
        for line in _pick(entry.lines, entry.pick, random)
    ]

    def draft(history: SeedHistory) -> None:
        due = None if entry.due_in is None else iso(history.unit.now + entry.due_in * DAY)[:10]
        new = NewInvoice(
            account=_account_id(history, entry.account, "account"),
            customer=customer,
            amount=amount,
            lines=lines or None,
            due_date=due,
            description=_fill_in(entry.description, number, history.unit.now),
            metadata=entry.metadata,
        )
        history.made[key] = invoices.create(history.unit, history.tenant, new).id

    yield at, draft
    if entry.finalize_after is None:
        return
    open_at = _time_after(at, entry.finalize_after, random)
    yield open_at, partial(_move, invoices.finalize, key)
    if entry.pay_after is not None:
        yield _time_after(open_at, entry.pay_after, random), partial(_move, invoices.pay, key)
    elif entry.void_after is not None:
        yield _time_after(open_at, entry.void_after, random), partial(_move, invoices.void, key)


def _order(entry: OrderEntry, at: int, key: str, random: Random) -> Iterator[Happening]:
    user = _draw(entry.user, random)
    items: list[dict[str, Any]] = [
        {
            name: value.draw(random) if isinstance(value, IntegerRange) else value
            for name, value in item.items()
        }
        for item in _pick(entry.items, entry.pick, random)
    ]

    def place(history: SeedHistory) -> None:
        if user not in history.users:
            raise InvalidRequest("invalid_value", f"{user!r} has not joined yet.", "user")
        new = NewOrder(history.users[user], items)
        history.made[key] = orders.create(history.unit, history.tenant, new).id

    yield at, place
    if entry.pay_after is None:
        return
    paid_at = _time_after(at, entry.pay_after, random)
    yield paid_at, partial(_move, orders.pay, key)
    if entry.ship_after is not None:
        yield _time_after(paid_at, entry.ship_after, random), partial(_move, orders.ship, key)


def _move(move: Callable[[Unit, Tenant, str], object], key: str, history: SeedHistory) -> None:
    """Move the invoice or order of an earlier step to its next state."""
    move(history.unit, history.tenant, history.made[key])


def _account_id(history: SeedHistory, ref: str, field: str) -> str:
    if ref not in history.accounts:
        raise InvalidRequest("invalid_value", f"{ref!r} is not open yet at that time.", field)
    return history.accounts[ref]


def _draw(choices: list[str], random: Random) -> str:
    return choices[int(random.random() * len(choices))]


def _pick(choices: list[Any], pick: IntegerRange | None, random: Random) -> list[Any]:
    """Draw a number from `pick`, and return that many random choices, each at most once, in the given order.

    If `pick` is None, return all choices.
    """
    if pick is None:
        return list(choices)
    order = sorted(range(len(choices)), key=lambda _: random.random())
    return [choices[position] for position in sorted(order[: pick.draw(random)])]


def _fill_in(text: str | None, number: int, moment: int) -> str | None:
    if text is None:
        return None
    return text.replace("{n}", str(number)).replace("{month}", _MONTHS[int(iso(moment)[5:7]) - 1])
