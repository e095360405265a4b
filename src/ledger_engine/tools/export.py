"""Exports the transactions of a project's mode as text for other programs, oldest first (docs/export.md).

A *book* contains the data of one project in one mode.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace
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
# The root of an account's name in a journal, by the `type` in its metadata. An account without one of these
# types is an asset. The view trial_balance uses the same roots, and gives each root the same side (debit or
# credit); see docs/export.md.
ROOTS = {
    "asset": "assets",
    "liability": "liabilities",
    "equity": "equity",
    "income": "income",
    "expense": "expenses",
}
# Under these roots a positive balance is a debit; under the other roots it is a credit.
DEBIT_ROOTS = ("assets", "expenses")

Start = Callable[[AuditWork[list[Transaction]]], Future[list[Transaction]]]


@dataclass(slots=True)
class ExportedAccount:
    """An account of the book; `balance` is its balance before the export starts, in the smallest unit."""

    id: str
    name: str
    currency: str
    root: str
    balance: int

    def debit(self, amount: int) -> int:
        """Return a balance, or a change of a balance, with the sign that it has in a journal.

        In a journal debits are positive, and credits are negative.
        """
        return amount if self.root in DEBIT_ROOTS else -amount


@dataclass(slots=True)
class ExportedBook:
    """A book, with the balances as they were before the first exported transaction.

    `title` is the project's name with the mode. `accounts` are all accounts of the book, oldest first. The
    export starts at the millisecond `start`; None means the beginning of the book.
    """

    title: str
    accounts: list[ExportedAccount]
    start: int | None


def open_book(unit: AuditUnit, tenant: Tenant, start: int | None) -> ExportedBook:
    """Return the tenant's book, with balances before the millisecond `start`."""
    balances = [
        ExportedAccount(
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
    """Yield the transactions from the millisecond `since` to `until`, both included, up to 5,000 at a time.

    `start` begins a read in another thread: while the caller writes one list, the next list is read. All
    reads see the ledger in the same state.
    """
    page = partial(transactions.oldest_first, tenant=tenant, since=since, until=until, limit=AT_ONCE)
    reading = start(partial(page, after=None))
    while batch := reading.result():
        reading = start(partial(page, after=batch[-1].id))
        yield batch


def mode_with_more(unit: AuditUnit, tenant: Tenant, since: int | None, until: int | None) -> str | None:
    """Return the name of the other mode if only that mode has transactions in the period; else None."""
    other = replace(tenant, livemode=not tenant.livemode)
    page = partial(transactions.oldest_first, unit, after=None, since=since, until=until, limit=1)
    return mode_name(other.livemode) if page(tenant=other) and not page(tenant=tenant) else None


class Writer(ABC):
    """Writes one book in one format. Each method returns the next part of the text."""

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
    """The transactions as CSV. Each row shows its amount twice: in the smallest unit, and as a decimal."""

    def __init__(self, book: ExportedBook) -> None:
        self._accounts = {each.id: each for each in book.accounts}

    def beginning(self) -> str:
        names = [field.name for field in fields(Transaction)]
        return csv_rows([(*names, "account_name", "currency", "decimal_amount")])

    def write(self, page: list[Transaction]) -> str:
        rows = []
        for each in page:
            account = self._accounts[each.account]
            fields = as_json(each)
            del fields["object"]
            fields["description"] = as_text(each.description or "")
            fields["livemode"] = str(each.livemode).lower()
            decimal_amount = _decimal(each.amount, account.currency)
            rows.append((*fields.values(), as_text(account.name), account.currency, decimal_amount))
        return csv_rows(rows)


class Journal(Writer):
    """The transactions as entries of double-entry bookkeeping, each with a debit and an equal credit.

    An account of assets or expenses is a debit account: its positive balance is a debit. Every other account
    is a credit account. The two sides of a transfer are one entry. If the accounts of an entry do not
    balance, the *settlement* account of the currency takes the rest. The rest of a plain transaction is its
    whole amount. A transfer between two debit accounts, or between two credit accounts, leaves no rest; any
    other transfer leaves twice its amount.

    The opening balances are dated one day before the export's first day, so that a report on the exported
    period leaves the opening balances out. The last lines assert the balance of every account.
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
    def name(self, account: ExportedAccount) -> str:
        """Return the account's name in the journal. It is unique, because it contains the account's id."""

    @abstractmethod
    def settlement(self, root: str, currency: str) -> str:
        """Return the name of the currency's settlement account in the journal."""

    @abstractmethod
    def entry(self, date: str, text: str, sides: list[tuple[str, str]], **ids: str) -> str:
        """Return an entry. Each of `sides` is the name of an account, and an amount with its currency.

        `ids` maps the names of fields of a transaction, such as `transfer`, to the ids that the entry shows.
        """

    @abstractmethod
    def balance(self, account: ExportedAccount, amount: str) -> str:
        """Return an assertion that the account has this balance after the last entry."""

    def write(self, page: list[Transaction]) -> str:
        return "".join(map(self._entry_of, page))

    def end(self) -> str:
        return "".join(
            self.balance(each, amount_of(each.debit(self._balances[each.id]), each.currency))
            for each in self._accounts.values()
        )

    def opening(self) -> str:
        """Return the entries of the opening balances: one for each account with a balance."""
        return "".join(
            self._entry_of_changes(_days_later(self._date, -1), "Opening balance", {each.id: each.balance})
            for each in self._accounts.values()
            if each.balance
        )

    def _entry_of(self, each: Transaction) -> str:
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
        return self._entry_of_changes(self._date, each.description or "", changes, **ids_present)

    def _entry_of_changes(self, date: str, text: str, changes: dict[str, int], **ids: str) -> str:
        """Return the entry for `changes`, which maps the id of an account to the change of its balance."""
        debits = {id: self._accounts[id].debit(change) for id, change in changes.items()}
        currency = self._accounts[next(iter(changes))].currency
        sides = [(self._names[id], amount_of(debit, currency)) for id, debit in debits.items()]
        if rest := -sum(debits.values()):
            sides.append((self._settlements[currency], amount_of(rest, currency)))
        return self.entry(date, printable(text), sides, **ids)


_HLEDGER_TYPES = {"assets": "A", "liabilities": "L", "equity": "E", "income": "R", "expenses": "X"}


class Hledger(Journal):
    """A journal for hledger. The program Ledger reads the same format."""

    def name(self, account: ExportedAccount) -> str:
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
        # Without the empty code `()`, hledger would read a description in parentheses as the entry's code.
        head = f"{date} * () {_one_line(text, ';')}".rstrip() + (f"  ; {tags}" if tags else "")
        return "\n".join([head, *(f"    {name}  {amount}" for name, amount in sides)]) + "\n\n"

    def balance(self, account: ExportedAccount, amount: str) -> str:
        zero = amount_of(0, account.currency)
        return self.entry(self._date, "Balance", [(self._names[account.id], f"{zero} = {amount}")])


class Beancount(Journal):
    """A journal for beancount."""

    def name(self, account: ExportedAccount) -> str:
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

    def balance(self, account: ExportedAccount, amount: str) -> str:
        # A balance assertion applies to the beginning of its day, so date it one day after the last entry.
        # The tolerance of 0 makes the assertion exact.
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
    return f"{_decimal(amount, currency)} {currency}"


def _decimal(amount: int, currency: str) -> str:
    return f"{Decimal(amount).scaleb(-DECIMALS[currency]):f}"


def _day(moment: int) -> str:
    return iso(moment)[:10]


def _days_later(day: str, days: int) -> str:
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()


def _settlement_roots(accounts: list[ExportedAccount]) -> dict[str, str]:
    """Return the root of each currency's settlement account.

    If the book contains asset accounts in the currency, the settlement account belongs to equity: it stands
    for the source of the money in the asset accounts. If the book contains no asset account in the currency,
    the settlement account is an asset: it stands for the money, which lies outside the book.
    """
    roots = {each.currency: "assets" for each in accounts}
    return roots | {each.currency: "equity" for each in accounts if each.root == "assets"}


def _one_line(text: str, forbidden: str) -> str:
    """Return the text in one line, with `-` for each forbidden character.

    Several spaces become one, because two spaces would end an account's name in hledger.
    """
    return re.sub(f"[{forbidden}]", "-", " ".join(printable(text).split()))


def _component(text: str) -> str:
    """Return the text as one part of a beancount account's name, made of letters, digits and hyphens.

    Beancount requires a capital letter or a digit as the first character. If the first letter has no capital
    form, such as a Chinese letter, the result begins with `X-`.
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
    escaped_text = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped_text}"'


_IN_COMPONENT = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd")  # categories of Unicode that beancount accepts
