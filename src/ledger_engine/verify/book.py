"""The pass over one book: reads its transactions and its events side by side, in the order of their ids.

A book is one mode, test or live, of one project. Each balance must follow from the previous balance of its
account. Each transaction must match its event, and each event of a posting must match its transaction. The
content of each event must match the log (see the module `sealed`). The pass needs little memory: it holds the
balances of recently read accounts, transfers of which it has read only one side, and the entries of one tile
of the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ledger_engine.core.clock import iso
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.events import outbox
from ledger_engine.ledger.accounts import TRANSACTIONS
from ledger_engine.log.entries import LoggedBook
from ledger_engine.store import Row, Unit
from ledger_engine.store.read_snapshot import AuditUnit
from ledger_engine.verify.faults import Discrepancies
from ledger_engine.verify.sealed import EntryAudit

ROWS_AT_ONCE = 4_000
# The pass remembers the balances of accounts in two dicts of at most this size. When the newer dict is full,
# it becomes the older dict, and the pass drops the former older dict.
BALANCES_MAX = 150_000
CURRENCIES_MAX = 10_000  # accounts whose currency is remembered, for the check of transfers
UNPAIRED_MAX = 100_000  # remembered transactions whose event was not at the expected place
_COLUMNS = (
    "id, account, amount, type, coalesce(long_description, description) AS description, balance_after,"
    " destination, transfer, reverses, created"
)
_TRANSACTIONS = (
    f"SELECT {_COLUMNS} FROM transactions NOT INDEXED"
    " WHERE book = :book AND id > :after ORDER BY id LIMIT :rows"
)
_ONE = f"SELECT {_COLUMNS} FROM transactions WHERE book = :book AND id = :id"
_EVENTS = (
    f"SELECT id, type, object, {outbox.SHORT_BODY}, created FROM events AS e NOT INDEXED"
    " WHERE book = :book AND id > :after ORDER BY id LIMIT :rows"
)
_BEFORE = (
    f"SELECT id, balance_after FROM {TRANSACTIONS} WHERE account = :account AND id < :id"
    " ORDER BY id DESC LIMIT 1"
)


class BookDamaged(Exception):
    """The database returned rows that the statement did not request, or returned rows in a wrong order."""


@dataclass(frozen=True, slots=True)
class PassStart:
    """The ids of the event and the transaction after which a pass begins; '' means the start of the book."""

    event: str = ""
    transaction: str = ""


class _Side(NamedTuple):
    """One of the two transactions of a transfer, remembered until the pass reads the other transaction."""

    id: str
    account: str
    change: int
    created: int
    destination: str | None


def rows_of(unit: AuditUnit, sql: str, book: int, after: str) -> Iterator[Row]:
    """Yield the rows of a book after the id `after`. Raises BookDamaged if a row is out of order."""
    while True:
        rows = unit.execute(sql, {"book": book, "after": after, "rows": ROWS_AT_ONCE})
        unit.note_read(len(rows))
        for row in rows:
            id = row[0]
            if id <= after:
                raise BookDamaged(f"the rows after {after} are not in order")
            after = id
            yield row
        if len(rows) < ROWS_AT_ONCE:
            return


@dataclass(slots=True)
class BookPass:
    """A pass over a book; call `run` once."""

    unit: AuditUnit
    book: LoggedBook
    start: PassStart
    entries: EntryAudit
    faults: Discrepancies
    transactions: int = 0
    events: int = 0
    _balances: dict[str, int] = field(default_factory=dict)
    # The balances of accounts that were read before the accounts in `_balances`.
    _older_balances: dict[str, int] = field(default_factory=dict)
    _currencies: dict[str, str | None] = field(default_factory=dict)
    # For each transfer of which only one side was read so far: the transfer's id, and this side.
    _open_transfers: dict[str, _Side] = field(default_factory=dict)
    _ahead: Row | None = None  # a transaction that was read before its event
    # The ids of transactions whose event was not at the expected place.
    _unpaired: dict[str, None] = field(default_factory=dict)

    def run(self) -> None:
        """Check the whole book. Raises BookDamaged."""
        after = self.start
        postings = map(
            self._check_posting, rows_of(self.unit, _TRANSACTIONS, self.book.number, after.transaction)
        )
        for event in rows_of(self.unit, _EVENTS, self.book.number, after.event):
            self.events += 1
            body = self._body(event, postings)
            self.entries.add(event[0], event[1], event[4], body)
        for posting in postings if self._ahead is None else (self._ahead, *postings):
            self._remember_unpaired(posting)
        for id in self._unpaired:
            self._note_no_event(id)
        for side in self._open_transfers.values():
            self.faults.add("transfer", side.id, f"transfer {side.id} has one side only.")
        self.entries.finish()

    def _body(self, event: Row, postings: Iterator[Row]) -> bytes:
        """Return the body of an event, and note the faults of the event."""
        id, kind, object, body, created = event
        posting = self._posting_of(id, object, postings) if kind == outbox.POSTING else None
        if body is not None:
            if body == "":
                body = outbox.long_body(self.unit, self.book.number, id)
            self._check_body(event, body, posting)
            return str(body).encode(errors="replace")
        if posting is None:
            self.faults.add("event", id, f"event {id} belongs to {object}, which does not exist.")
            return b""
        _, account, amount, type, description, balance, destination, transfer, reverses, moment = posting
        if moment != created:
            self.faults.add("event", id, f"event {id} has a different time than its transaction {object}.")
        text = outbox.posting_text(
            id, created, object, account, amount, type, description, balance, destination, transfer, reverses,
            self.book.livemode,
        )  # fmt: skip
        return text.encode(errors="replace")

    def _posting_of(self, id: str, object: str, postings: Iterator[Row]) -> Row | None:
        """Return the transaction `object`, to which the event `id` belongs; None if there is none.

        The transaction is usually the next one in `postings`, because transactions and events have the same
        order.
        """
        while (posting := self._ahead or next(postings, None)) is not None:
            self._ahead = None
            if posting[0] == object:
                return posting
            if posting[0] > object:
                self._ahead = posting
                break
            self._remember_unpaired(posting)
        row = self.unit.first(_ONE, {"book": self.book.number, "id": object})
        if row is not None and self._unpaired.pop(object, id) is not None:
            self.faults.add("event", id, f"event {id} is a second event of {object}.")
        return row

    def _remember_unpaired(self, posting: Row) -> None:
        """Remember a transaction whose event was not at the expected place.

        This need not be a fault, because versions before 1.0 stored events in another order.
        """
        self._unpaired[posting[0]] = None
        if len(self._unpaired) > UNPAIRED_MAX:
            self._note_no_event(next(iter(self._unpaired)))
            del self._unpaired[next(iter(self._unpaired))]

    def _note_no_event(self, id: str) -> None:
        self.faults.add("transaction", id, f"transaction {id} has no event.")

    def _check_body(self, event: Row, body: str, posting: Row | None) -> None:
        id, kind, object, _, created = event
        if kind == outbox.POSTING and posting is None:
            self.faults.add("event", id, f"event {id} belongs to {object}, which does not exist.")
        try:
            message: dict[str, Any] = json.loads(body)
            stated = message["id"], message["type"], message["created"], message["data"]["object"]["id"]
        except (ValueError, KeyError, TypeError, RecursionError):
            self.faults.add("event", id, f"event {id} has text in body that is not the JSON of an event.")
            return
        if stated != (id, kind, iso(created), object):
            columns = "id, type, time and object"
            self.faults.add("event", id, f"event {id}: its body does not match its columns ({columns}).")

    def _check_posting(self, posting: Row) -> Row:
        """Check a transaction and its account's balance, and return the transaction."""
        id, account, amount, type, _, balance, destination, transfer, _, created = posting
        self.transactions += 1
        change = amount if type == "credit" else -amount
        if account not in self._balances:
            self._begin_balance(account, id)
        due = self._balances[account] + change
        if due != balance:
            self.faults.add(
                "transaction",
                id,
                f"transaction {id} has the balance_after {balance} for {account}; the correct value is"
                f" {due}.",
            )
        if not (0 < amount <= MAX_AMOUNT and -MAX_AMOUNT <= balance <= MAX_AMOUNT):
            wrong = balance if 0 < amount <= MAX_AMOUNT else amount
            self.faults.add(
                "transaction", id, f"transaction {id} has the amount {wrong}, which is out of range."
            )
        self._balances[account] = balance
        if transfer is not None:
            self._pair(transfer, _Side(id, account, change, created, destination))
        if (transfer is None) != (destination is None) or (
            destination is not None and self._currency(destination) != self._currency(account)
        ):
            self.faults.add(
                "transfer", id, f"transaction {id} has no destination that fits its account {account}."
            )
        return posting

    def _begin_balance(self, account: str, id: str) -> None:
        """Put into `_balances` the balance that an account had before the transaction `id`.

        Call this if `_balances` does not contain the account: the pass has read no transaction of the account
        yet, or has moved the balance to `_older_balances`, or has dropped it.
        """
        if len(self._balances) == BALANCES_MAX:
            self._older_balances, self._balances = self._balances, {}
        if (balance := self._older_balances.get(account)) is not None:
            self._balances[account] = balance
            return
        self._balances[account] = 0
        if self._older_balances or self.start.transaction:
            row = self.unit.first(_BEFORE, {"account": account, "id": id})
            self._balances[account] = 0 if row is None else row["balance_after"]
        if self._currency(account) is None:
            self.faults.add(
                "transaction",
                id,
                f"transaction {id} belongs to another project or mode than its account {account},"
                " or the account does not exist.",
            )

    def _currency(self, account: str) -> str | None:
        """Return the currency of an account; None if the book has no such account."""
        if account not in self._currencies:
            if len(self._currencies) == CURRENCIES_MAX:
                self._currencies.clear()
            row = self.unit.first(
                "SELECT currency FROM accounts"
                " WHERE id = :id AND project = :project AND livemode = :livemode",
                {"id": account, "project": self.book.project, "livemode": int(self.book.livemode)},
            )
            self._currencies[account] = None if row is None else row["currency"]
        return self._currencies[account]

    def _pair(self, transfer: str, side: _Side) -> None:
        other = self._open_transfers.pop(transfer, None)
        if other is None:
            self._open_transfers[transfer] = side
        elif not (
            other.id == transfer
            and other.created == side.created
            and other.change == -side.change
            and other.account == side.destination != side.account == other.destination
        ):
            self.faults.add(
                "transfer", transfer, f"the sides of transfer {transfer} do not mirror each other."
            )


def start_after(unit: Unit, book: int, event: str) -> PassStart:
    """Return the start of a pass over the events after `event` and the transactions that belong to them."""
    row = unit.first(
        "SELECT object FROM events WHERE book = :book AND id <= :event AND type = :posting"
        " ORDER BY id DESC LIMIT 1",
        {"book": book, "event": event, "posting": outbox.POSTING},
    )
    return PassStart(event, "" if row is None else row["object"])


def books_of(unit: Unit) -> list[LoggedBook]:
    """Return all books."""
    rows = unit.execute("SELECT book, project, livemode FROM books ORDER BY book")
    return [LoggedBook(row["book"], row["project"], bool(row["livemode"])) for row in rows]
