"""The entries of a data set. Values that may vary between repetitions are drawn when it is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class Texts:
    """A text, or several of which one is drawn."""

    choices: tuple[str, ...]

    def draw(self, random: Random) -> str:
        return self.choices[int(random.random() * len(self.choices))]


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer drawn from `least` to `most` in steps; a fixed one has both the same."""

    least: int
    most: int
    step: int = 1

    def draw(self, random: Random) -> int:
        # Of the methods only random() gives the same numbers on every version of Python.
        return self.least + self.step * int(random.random() * ((self.most - self.least) // self.step + 1))


@dataclass(frozen=True, slots=True)
class When:
    """The times of an entry: from the history's `day` (1 is the first) to `until`, `per_day` times on each,
    with a fixed number of days in between.

    `minute` is the minute of the day.
    """

    day: int
    until: int
    every: int
    per_day: Whole
    minute: Whole


@dataclass(frozen=True, slots=True)
class AccountEntry:
    """An account. Other entries refer to it by `ref`."""

    place: str
    when: When
    ref: str
    name: str
    currency: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class UserEntry:
    place: str
    when: When
    ref: str
    name: str
    email: str
    role: str
    deactivate_after: Whole | None


@dataclass(frozen=True, slots=True)
class Fee:
    """A percentage of an amount, transferred from the same account to the account `to`."""

    percent: int
    to: str
    description: str


@dataclass(frozen=True, slots=True)
class TransactionEntry:
    """`amount` is None for the account's whole balance. `reverse_share` percent of them are reversed."""

    place: str
    when: When
    accounts: Texts
    type: str
    amount: Whole | None
    descriptions: Texts | None
    destinations: Texts | None
    fee: Fee | None
    reverse_share: int
    reverse_after: Whole | None


@dataclass(frozen=True, slots=True)
class LineEntry:
    description: str
    quantity: Whole
    unit_amount: Whole


@dataclass(frozen=True, slots=True)
class InvoiceEntry:
    """`pick` of the `lines` are drawn, all for None.

    It is finalized `finalize_after` days after it is drafted, and paid or voided the given days after that.
    """

    place: str
    when: When
    account: str
    customers: Texts
    amount: Whole | None
    lines: tuple[LineEntry, ...]
    pick: Whole | None
    due_in: int | None
    description: str | None
    metadata: dict[str, str]
    finalize_after: Whole | None
    pay_after: Whole | None
    void_after: Whole | None


@dataclass(frozen=True, slots=True)
class OrderEntry:
    """`pick` of the `items` are drawn, all for None; a `Whole` among their fields is drawn too.

    It is paid `pay_after` days after it is placed, and shipped the given days after that.
    """

    place: str
    when: When
    users: Texts
    items: tuple[dict[str, Any], ...]
    pick: Whole | None
    pay_after: Whole | None
    ship_after: Whole | None


Entry = AccountEntry | UserEntry | TransactionEntry | InvoiceEntry | OrderEntry


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set. `name` is the file's; its history lasts `days` days and ends yesterday."""

    name: str
    title: str
    days: int
    entries: tuple[Entry, ...]
