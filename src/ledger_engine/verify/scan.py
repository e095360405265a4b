"""The passes over all transactions and events: chain, ranges, transfers, and what other checks compare with.

They read the transactions, and the events, of each book once, in the order of their ids, some thousands at a
time, and keep the last balance of each account. SQLite hands over each column of a part as one text, which
takes a third of the time of handing over rows. What is stored twice is compared by hashes, so that the passes
over the table, its indexes, and the events run side by side.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import not_
from typing import NamedTuple

from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.ledger.accounts import TRANSACTIONS
from ledger_engine.store import Columns, Parameters, Value
from ledger_engine.store.id_ranges import TEXT_MAX, Parts
from ledger_engine.store.index_hashes import (
    DESCRIPTIONS,
    SIGNED,
    SPECIAL,
    Listed,
    Prints,
    descriptions,
    entry,
)
from ledger_engine.store.snapshot import AuditUnit

ROWS_AT_ONCE = 8_000

RANGE = "amounts and balances are in range"
OF_ITS_BOOK = "a transaction belongs to its account's project and mode"
CHAIN = "each balance follows from the one before"
LAST = "an account holds what its last transaction says"
SETTLED = "a settlement is the other side of all that is no transfer"
MIRRORED = "the two sides of a transfer mirror each other"
POSTED = "the event of a posting has its transaction, and a delivery its event"
DESTINED = "a transfer has a destination of its currency, and nothing else has one"

OF_PART = "NOT INDEXED WHERE book = :book AND id > :after AND id <= :last"
# SQLite compares the keys at both ends of a range, and reads each row between them whatever its book is.
OF_OTHERS = "nullif(book, :book)"
_COLUMNS = ("id", "account", SIGNED, "balance_after", "created", SPECIAL)


class Part(NamedTuple):
    """Rows of a book: the parameters of `OF_PART`, their ids, and a text of each column."""

    bounds: Parameters
    ids: list[str]
    texts: list[str]


class Pool(NamedTuple):
    """What an account's amounts may be added to: those of the same book and currency."""

    book: int
    currency: str


@dataclass(frozen=True, slots=True)
class Found:
    """A fault: the row, and what the check's message is filled in with."""

    id: str
    values: dict[str, object]


class _Side(NamedTuple):
    """A transaction that is a side of a transfer, or a reversal, or has a destination.

    What it has not is an empty text.
    """

    id: str
    account: str
    change: str
    created: str
    transfer: str
    destination: str
    reverses: str


@dataclass(slots=True)
class Postings:
    """The ids and times of the transactions of a book, in their order; by themselves, or in the events."""

    ids: Listed = field(default_factory=Listed)
    times: Listed = field(default_factory=Listed)


@dataclass(slots=True)
class Scanned:
    """What the pass has found: the first fault of each check, and what other checks compare with.

    `damage` says what no ledger contains, whatever wrote it. `held` is the last balance of each account, and
    `moved` the sum, by book and currency, of all transactions looked at that are not transfers.
    """

    faults: dict[str, Found] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)
    prints: Prints = field(default_factory=Prints)
    listed: dict[int, Postings] = field(default_factory=lambda: defaultdict(Postings))
    counted: dict[int, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    moved: dict[Pool, int] = field(default_factory=dict)


@dataclass(slots=True)
class Scan:
    """The pass: `run` for each book, then `finish`.

    `since` has the id, by book, after which transactions are looked at; what was posted until then is taken
    as it is stored.
    """

    unit: AuditUnit
    since: Mapping[int, str] = field(default_factory=dict)
    found: Scanned = field(default_factory=Scanned)
    _before: dict[Pool, int] = field(default_factory=lambda: defaultdict(int))
    _met: set[str] = field(default_factory=set)
    _pools: dict[str, Pool] = field(default_factory=dict)
    _transferred: dict[Pool, int] = field(default_factory=lambda: defaultdict(int))
    _open: dict[str, _Side] = field(default_factory=dict)

    def run(self, book: int) -> None:
        """Look at all transactions of the book."""
        self.found.counted[book] = 0
        self._met.clear()
        columns = _COLUMNS + ((OF_OTHERS, DESCRIPTIONS) if self.unit.reads_indexes else ())
        for part in parts(self.unit, "transactions", columns, book, self.since.get(book, "")):
            self._look_at(book, part)
            rows = len(part.ids)
            self.found.counted[book] += rows
            # Where nobody else reads the two indexes, they count with the table.
            self.unit.note_read(rows if self.unit.reads_indexes else 3 * rows)

    def finish(self) -> Scanned:
        """Note what can be told only at the end: a transfer of which a side is missing; return all."""
        for transfer in self._open:
            self._note(MIRRORED, transfer)
        self.found.moved = self._moved()
        return self.found

    def _moved(self) -> dict[Pool, int]:
        moved: dict[Pool, int] = defaultdict(int)
        for account, balance in self.found.held.items():
            if (pool := self._pools.get(account)) is not None:
                moved[pool] += balance
        for taken_off in (self._before, self._transferred):
            for pool, amount in taken_off.items():
                moved[pool] -= amount
        return dict(moved)

    def _look_at(self, book: int, part: Part) -> None:
        ids, texts = part.ids, part.texts
        accounts = texts[1].split(",")
        changes: list[int] = json.loads(f"[{texts[2]}]")  # in half the time of int()
        balances: list[int] = json.loads(f"[{texts[3]}]")
        if not len(ids) == len(accounts) == len(changes) == len(balances):
            self.found.damage.append(f"an id between the transactions {ids[0]} and {ids[-1]} has a comma")
            return
        if ids != sorted(ids):
            self.found.damage.append(
                f"the transactions from {ids[0]} to {ids[-1]} are not in the order of their ids"
            )
        self.found.listed[book].ids.add(texts[0])
        self.found.listed[book].times.add(texts[4])
        self._meet(book, ids, accounts)
        if max(changes) > MAX_AMOUNT or min(changes) < -MAX_AMOUNT:
            self._beyond(ids, [abs(change) for change in changes])
        if max(balances) > MAX_AMOUNT or min(balances) < -MAX_AMOUNT:
            self._beyond(ids, balances)
        self._follow(ids, accounts, changes, balances)
        specials = texts[5].split(",") if texts[5] else []
        if self.unit.reads_indexes:
            if texts[6]:
                self.found.damage.append(f"a transaction between {ids[0]} and {ids[-1]} is of another book")
            described = descriptions(texts[7], len(ids), lambda: self._descriptions(part.bounds))
            columns_of_index = (accounts, ids, changes, balances, texts[4].split(","), described)
            self.found.prints.add(book, columns_of_index, specials)
            credits = [change > 0 for change in changes]
            self.found.prints.list_ids(book, "credit", ",".join(compress(ids, credits)))
            self.found.prints.list_ids(book, "debit", ",".join(compress(ids, map(not_, credits))))
        for text in specials:
            values = text.split("\t")
            if len(values) == len(_Side._fields):
                self._take(book, _Side._make(values))
            else:
                self.found.damage.append(f"a text of the transaction {values[0]} has a tabulator")

    def _descriptions(self, bounds: Parameters) -> list[str | None]:
        rows = self.unit.execute(f"SELECT description FROM transactions {OF_PART} ORDER BY id", bounds)
        return [row["description"] for row in rows]

    def _meet(self, book: int, ids: Sequence[str], accounts: Sequence[str]) -> None:
        """Read the accounts that the book has for the first time, and find those of another book."""
        new = set(accounts) - self._met
        if not new:
            return
        self._met |= new
        for account in sorted(new - self.found.held.keys()):
            self.found.held[account] = held = self._balance_before(book, account)
            pool = self._pool(account)
            if pool is None:
                id = ids[accounts.index(account)]
                self.found.damage.append(f"transaction {id} refers to a missing row of accounts")
            elif held:
                self._before[pool] += held
        pools = self._pools
        for account in new:
            if account in pools and pools[account].book != book:
                id = ids[accounts.index(account)]
                self._note(OF_ITS_BOOK, id, account=account)

    def _balance_before(self, book: int, account: str) -> int:
        if book not in self.since:
            return 0
        row = self.unit.first(
            f"SELECT id, balance_after FROM {TRANSACTIONS} WHERE account = :account AND id <= :until"
            " ORDER BY id DESC LIMIT 1",
            {"account": account, "until": self.since[book]},
        )
        return 0 if row is None else int(row["balance_after"])

    def _pool(self, account: str) -> Pool | None:
        if account not in self._pools:
            row = self.unit.first(
                "SELECT b.book, a.currency FROM accounts AS a JOIN books AS b"
                " ON b.project = a.project AND b.livemode = a.livemode WHERE a.id = :account",
                {"account": account},
            )
            if row is None:
                return None
            pool = Pool(row["book"], row["currency"])
            self._pools[account] = pool
        return self._pools[account]

    def _follow(
        self, ids: Sequence[str], accounts: Sequence[str], changes: Sequence[int], balances: Sequence[int]
    ) -> None:
        held = self.found.held
        for id, account, change, balance in zip(ids, accounts, changes, balances, strict=True):
            if held[account] + change != balance:
                self._note(CHAIN, id, account=account, said=balance, due=held[account] + change)
            held[account] = balance

    def _take(self, book: int, side: _Side) -> None:
        """Look at a transaction that is not a usual one."""
        id, account, change, _created, transfer, destination, reverses = side
        if reverses:
            self.found.prints.by_reversed += entry(reverses, book, id)
        if transfer:
            self.found.prints.by_transfer += entry(transfer, book, id)
            self._pair(side)
        if transfer or destination:
            own = self._pool(account)
            other = self._pool(destination) if destination else None
            if own is not None and transfer:
                self._transferred[own] += int(change)
            if not transfer or other is None or (own is not None and own != other):
                self._note(DESTINED, id, account=account)

    def _pair(self, side: _Side) -> None:
        other = self._open.pop(side.transfer, None)
        if other is None:
            self._open[side.transfer] = side
        elif not (
            other.id == side.transfer
            and other.created == side.created
            and int(other.change) == -int(side.change)
            and other.account == side.destination != side.account == other.destination
        ):
            self._note(MIRRORED, side.transfer)

    def _beyond(self, ids: Sequence[str], amounts: Sequence[int]) -> None:
        for id, amount in zip(ids, amounts, strict=True):
            if not -MAX_AMOUNT <= amount <= MAX_AMOUNT:
                self._note(RANGE, id, kind="transaction", amount=amount)
                return

    def _note(self, check: str, id: str, **values: object) -> None:
        """Keep the fault if none of this check has a smaller id."""
        known = self.found.faults.get(check)
        if known is None or id < known.id:
            self.found.faults[check] = Found(id, values)


def parts(unit: AuditUnit, table: str, columns: Columns, book: int, after: str) -> Iterator[Part]:
    """Yield the rows of a book after an id in parts. The first column is the id."""

    def read(after: str, last: str, guessed: bool) -> tuple[Part, int]:
        bounds: dict[str, Value] = {"book": book, "after": after, "last": last}
        texts = unit.columns(columns, f"{table} {OF_PART}", bounds, longest=TEXT_MAX if guessed else 0)
        ids = texts[0].split(",") if texts[0] else []
        return Part(bounds, ids, texts), len(ids)

    def end(after: str) -> str | None:
        return _last_of_part(unit, book, after, table)

    return iter(Parts(read, end, ROWS_AT_ONCE, after=after, guessing=unit.reads_indexes))


def _last_of_part(unit: AuditUnit, book: int, after: str, table: str) -> str | None:
    """Return the last id of the part that begins after the id `after`, or None when nothing follows it."""
    found = unit.first(
        f"SELECT id FROM {table} NOT INDEXED WHERE book = :book AND id > :after"
        " ORDER BY id LIMIT 1 OFFSET :rows",
        {"book": book, "after": after, "rows": ROWS_AT_ONCE - 1},
    ) or unit.first(
        f"SELECT max(id) AS id FROM {table} NOT INDEXED WHERE book = :book AND id > :after",
        {"book": book, "after": after},
    )
    return None if found is None else found["id"]


def books_of(unit: AuditUnit, table: str) -> Iterator[int]:
    """Yield the numbers of the books that have rows in the table."""
    book: int | None = -(2**63)
    while book is not None:
        (row,) = unit.execute(f"SELECT min(book) AS book FROM {table} WHERE book > :book", {"book": book})
        book = row["book"]
        if book is not None:
            yield book
