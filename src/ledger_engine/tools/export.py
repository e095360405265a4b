"""Exports: the transactions of one book, oldest first, as text for other programs (docs/export.md)."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, fields
from datetime import date, timedelta
from decimal import Decimal
from functools import partial

from ledger_engine.access import projects
from ledger_engine.core.clock import iso
from ledger_engine.core.csv_text import as_text, csv_rows
from ledger_engine.core.logs import printable
from ledger_engine.core.money import DECIMALS
from ledger_engine.core.records import as_json, dumps
from ledger_engine.core.tenant import Tenant, mode_name
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.transactions import Transaction
from ledger_engine.store.read_snapshot import AuditUnit, AuditWork

AT_ONCE = 5_000  # transactions that are read together
# The root of an account in a journal, by the `type` in its metadata; every other account is an asset. The
# view trial_balance shows the same roots and the same sides (docs/export.md).
ROOTS = {
    "asset": "assets",
    "liability": "liabilities",
    "equity": "equity",
    "income": "income",
    "expense": "expenses",
}
DEBIT_ROOTS = ("assets", "expenses")  # a positive balance is a debit; elsewhere it is a credit

Start = Callable[[AuditWork[list[Transaction]]], Future[list[Transaction]]]


@dataclass(slots=True)
class OpenBook:
    """An account of the book, with its balance in the smallest unit before the first exported transaction."""

    id: str
    name: str
    currency: str
    root: str
    balance: int

    def debit(self, amount: int) -> int:
        """Return the amount as a journal shows it: a debit is positive, a credit is negative."""
        return amount if self.root in DEBIT_ROOTS else -amount


@dataclass(slots=True)
class ExportedBook:
    """A book before the first exported transaction: its title, and every account, oldest first.

    `start` is the millisecond at which the export starts; None for the beginning.
    """

    title: str
    accounts: list[OpenBook]
    start: int | None


def open_book(unit: AuditUnit, tenant: Tenant, start: int | None) -> ExportedBook:
    """Return the tenant's book, with balances before the millisecond `start`."""
    balances = [
        OpenBook(
            account.id,
            account.name,
            account.currency,
            ROOTS.get(account.metadata.get("type", ""), ROOTS["asset"]),
            0 if start is None else accounts.balance_before(unit, tenant, account.id, start),
        )
        for account in accounts.oldest_first(unit, tenant)
    ]
    name = projects.get(unit, tenant.project).name
    return ExportedBook(f"{name}, {mode_name(tenant.livemode)} mode", balances, start)


def read(start: Start, tenant: Tenant, since: int | None, until: int | None) -> Iterator[list[Transaction]]:
    """Yield the transactions from the millisecond `since` to `until`, both included, some at a time.

    `start` runs works on one snapshot in parallel, so the next transactions are read while these are written.
    """
    page = partial(transactions.oldest_first, tenant=tenant, since=since, until=until, limit=AT_ONCE)
    reading = start(partial(page, after=None))
    while found := reading.result():
        reading = start(partial(page, after=found[-1].id))
        yield found


class Writer(ABC):
    """The writer of one format, for one book."""

    @abstractmethod
    def __init__(self, book: ExportedBook) -> None: ...

    def beginning(self) -> str:
        """Return the text before the first transaction."""
        return ""

    @abstractmethod
    def write(self, page: list[Transaction]) -> str:
        """Return the next transactions as text."""

    def end(self) -> str:
        """Return the text after the last transaction."""
        return ""


class ExportRecords(Writer):
    """The transactions in the form of the interface, one JSON object per line."""

    def __init__(self, book: ExportedBook) -> None:
        pass

    def write(self, page: list[Transaction]) -> str:
        return "".join(dumps(as_json(each)) + "\n" for each in page)


class ExportTable(Writer):
    """The transactions as CSV; amounts are in the smallest unit of the currency."""

    def __init__(self, book: ExportedBook) -> None:
        self._accounts = {each.id: each for each in book.accounts}

    def beginning(self) -> str:
        names = [field.name for field in fields(Transaction)]
        return csv_rows([(*names, "account_name", "currency")])

    def write(self, page: list[Transaction]) -> str:
        rows = []
        for each in page:
            account = self._accounts[each.account]
            fields = as_json(each)
            del fields["object"]
            fields["description"] = as_text(each.description or "")
            fields["livemode"] = str(each.livemode).lower()
            rows.append((*fields.values(), as_text(account.name), account.currency))
        return csv_rows(rows)


class Journal(Writer):
    """The transactions as entries of double-entry bookkeeping, each with both of its sides.

    A positive balance is a debit in an account of assets or expenses, and a credit in every other account.
    The two sides of a transfer are one entry. The settlement takes what an entry's accounts leave open: the
    whole amount of a plain transaction, nothing of a transfer between two accounts of one side, and twice
    the amount of a transfer from one side to the other.

    The day before the first entry holds the opening balances, so that a report of the period can leave them
    out. The last lines assert the balance of every account.
    """

    def __init__(self, book: ExportedBook) -> None:
        self._title = book.title
        self._accounts = {each.id: each for each in book.accounts}
        self._balances = {each.id: each.balance for each in book.accounts}
        self._names = {each.id: self.name(each) for each in book.accounts}
        self._settlements = {
            currency: self.settlement(root, currency)
            for currency, root in sorted(_settlement_roots(book.accounts).items())
        }
        self._transfers: set[str] = set()
        self._date = "1970-01-01" if book.start is None else _day(book.start)

    @abstractmethod
    def name(self, account: OpenBook) -> str:
        """Return the account's name in the journal, which is unique because it contains the account's id."""

    @abstractmethod
    def settlement(self, root: str, currency: str) -> str:
        """Return the name of the currency's settlement in the journal."""

    @abstractmethod
    def entry(self, date: str, text: str, sides: list[tuple[str, str]], **ids: str) -> str:
        """Return an entry; each side is an account's name, and an amount with its currency."""

    @abstractmethod
    def balance(self, account: OpenBook, amount: str) -> str:
        """Return an assertion that the account has this balance after the last entry."""

    def write(self, page: list[Transaction]) -> str:
        return "".join(map(self._written, page))

    def end(self) -> str:
        return "".join(
            self.balance(each, amount_of(each.debit(self._balances[each.id]), each.currency))
            for each in self._accounts.values()
        )

    def opening(self) -> str:
        """Return an entry for every balance that existed before the first transaction."""
        return "".join(
            self._moved(_days_later(self._date, -1), "Opening balance", {each.id: each.balance})
            for each in self._accounts.values()
            if each.balance
        )

    def _written(self, each: Transaction) -> str:
        self._balances[each.account] = each.balance_after
        if each.transfer is not None:
            if each.transfer in self._transfers:
                self._transfers.remove(each.transfer)
                return ""  # the entry of the other side already contains this side
            self._transfers.add(each.transfer)
        self._date = _day(each.created)
        change = each.amount if each.type == "credit" else -each.amount
        changes = {each.account: change}
        if each.destination is not None:
            changes[each.destination] = -change
        ids = {"id": each.id, "transfer": each.transfer, "reverses": each.reverses}
        ids_present = {key: value for key, value in ids.items() if value is not None}
        return self._moved(self._date, each.description or "", changes, **ids_present)

    def _moved(self, date: str, text: str, changes: dict[str, int], **ids: str) -> str:
        """Return the entry of changes of balances, by the id of their account, in one currency."""
        debits = {id: self._accounts[id].debit(change) for id, change in changes.items()}
        currency = self._accounts[next(iter(changes))].currency
        sides = [(self._names[id], amount_of(debit, currency)) for id, debit in debits.items()]
        if rest := -sum(debits.values()):
            sides.append((self._settlements[currency], amount_of(rest, currency)))
        return self.entry(date, printable(text), sides, **ids)


_HLEDGER_TYPES = {"assets": "A", "liabilities": "L", "equity": "E", "income": "R", "expenses": "X"}


class Hledger(Journal):
    """A journal for hledger, and for Ledger, which reads the same format."""

    def name(self, account: OpenBook) -> str:
        return f"{account.root}:{_one_line(account.name, ':;')}:{account.id}"

    def settlement(self, root: str, currency: str) -> str:
        return f"{root}:settlement:{currency}"

    def beginning(self) -> str:
        lines = ["decimal-mark ."]
        lines += [f"commodity 1000.{'0' * DECIMALS[each]} {each}" for each in self._settlements]
        lines += [
            f"account {each}  ; type:{_HLEDGER_TYPES[each.split(':')[0]]}"
            for each in self._settlements.values()
        ]
        lines += [
            f"account {self._names[each.id]}  ; type:{_HLEDGER_TYPES[each.root]}"
            for each in self._accounts.values()
        ]
        return "\n".join(lines) + "\n\n" + self.opening()

    def entry(self, date: str, text: str, sides: list[tuple[str, str]], **ids: str) -> str:
        tags = ", ".join(f"{name}:{id}" for name, id in ids.items())
        # With the empty code, a text that begins with a parenthesis is not read as a code.
        head = f"{date} * () {_one_line(text, ';')}".rstrip() + (f"  ; {tags}" if tags else "")
        return "\n".join([head, *(f"    {name}  {amount}" for name, amount in sides)]) + "\n\n"

    def balance(self, account: OpenBook, amount: str) -> str:
        none = amount_of(0, account.currency)
        return self.entry(self._date, "Balance", [(self._names[account.id], f"{none} = {amount}")])


class Beancount(Journal):
    """A file for beancount."""

    def name(self, account: OpenBook) -> str:
        return ":".join(
            [account.root.capitalize(), *filter(None, map(_component, (account.name, account.id)))]
        )

    def settlement(self, root: str, currency: str) -> str:
        return f"{root.capitalize()}:Settlement:{currency}"

    def beginning(self) -> str:
        lines = [f'option "title" {_quoted(self._title)}']
        lines += [f'option "operating_currency" "{each}"' for each in self._settlements]
        for each in self._accounts.values():
            lines.append(f"1970-01-01 open {self._names[each.id]} {each.currency}")
            lines.append(f"  name: {_quoted(each.name)}")
        lines += [f"1970-01-01 open {name} {currency}" for currency, name in self._settlements.items()]
        return "\n".join(lines) + "\n\n" + self.opening()

    def entry(self, date: str, text: str, sides: list[tuple[str, str]], **ids: str) -> str:
        links = "".join(f" ^{id}" for id in dict.fromkeys(ids.values()))
        head = f"{date} * {_quoted(text)}{links}"
        return "\n".join([head, *(f"  {name}  {amount}" for name, amount in sides)]) + "\n\n"

    def balance(self, account: OpenBook, amount: str) -> str:
        # An assertion applies to the beginning of its day. The tolerance of 0 makes it exact.
        number, currency = amount.split(" ")
        return f"{_days_later(self._date, 1)} balance {self._names[account.id]}  {number} ~ 0 {currency}\n"


_FORMATS: dict[str, type[Writer]] = {
    "hledger": Hledger,
    "beancount": Beancount,
    "csv": ExportTable,
    "jsonl": ExportRecords,
}


def export(
    kind: str, book: ExportedBook, start: Start, tenant: Tenant, since: int | None, until: int | None
) -> Iterator[str]:
    """Yield the book as text of the format `kind`, piece by piece."""
    writer = _FORMATS[kind](book)
    yield writer.beginning()
    for page in read(start, tenant, since, until):
        yield writer.write(page)
    yield writer.end()


def amount_of(amount: int, currency: str) -> str:
    """Return the amount as a decimal with its currency, like `-12.34 EUR`."""
    return f"{Decimal(amount).scaleb(-DECIMALS[currency]):f} {currency}"


def _day(moment: int) -> str:
    return iso(moment)[:10]


def _days_later(day: str, days: int) -> str:
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()


def _settlement_roots(accounts: list[OpenBook]) -> dict[str, str]:
    """Return the root of each currency's settlement.

    Next to an account of assets it is equity: the source of the money. If a currency has no such account,
    the money itself is outside the book, and the settlement is the asset.
    """
    roots = {each.currency: "assets" for each in accounts}
    return roots | {each.currency: "equity" for each in accounts if each.root == "assets"}


def _one_line(text: str, forbidden: str) -> str:
    """Return the text with single spaces, because more would end a name, and `-` for forbidden characters."""
    return re.sub(f"[{forbidden}]", "-", " ".join(printable(text).split()))


def _component(text: str) -> str:
    """Return the text as one part of a beancount account's name, made of letters, digits and hyphens.

    The first character must be a capital letter or a digit. So `X-` is put before a letter without a capital
    form, such as the letters of Chinese and Japanese.
    """
    letters = "".join(
        letter if unicodedata.category(letter) in _IN_COMPONENT else "-"
        for letter in unicodedata.normalize("NFC", text)
    )
    letters = re.sub("-+", "-", letters).strip("-")
    letters = letters[:1].upper() + letters[1:]
    can_begin = not letters or unicodedata.category(letters[0]) in ("Lu", "Nd")
    return letters if can_begin else f"X-{letters}"


def _quoted(text: str) -> str:
    """Return the text as a beancount string in one line."""
    text_escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text_escaped}"'


_IN_COMPONENT = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd")  # categories of Unicode that beancount accepts
