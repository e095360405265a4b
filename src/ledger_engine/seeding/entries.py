"""What stands in a data set. What may vary from one repetition to the next is drawn when it is loaded."""

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
    """An integer drawn from `least` to `most` in steps; both are the same for one that is fixed."""

    least: int
    most: int
    step: int = 1

    def draw(self, random: Random) -> int:
        # Only random() gives the same numbers on every version of Python.
        return self.least + self.step * int(random.random() * ((self.most - self.least) // self.step + 1))


@dataclass(frozen=True, slots=True)
class When:
    """From the history's `day` on (1 is its first) until `until`, every so many days, `per_day` times.

    `minute` is the minute of the day.
    """

    day: int
    until: int
    every: int
    per_day: Whole
    minute: Whole


@dataclass(frozen=True, slots=True)
class AccountEntry:
    """`ref` is the name the other entries call it by."""

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
    """So many percent of an amount, moved on from the same account to the account `to`."""

    percent: int
    to: str
    description: str


@dataclass(frozen=True, slots=True)
class TransactionEntry:
    """`amount` is None for all that the account holds. Of 100 of them, `reverse_share` are reversed."""

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
    """Of `lines` as many as `pick` says are drawn, all for None.

    It is finalized so many days after it is drafted, and paid or voided so many days after that.
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
    """Of `items` as many as `pick` says are drawn; a `Whole` among their fields is drawn too.

    It is paid so many days after it is placed, and shipped so many days after that.
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
    """`name` is the file's; the history is so many `days` long and ends yesterday."""

    name: str
    title: str
    days: int
    entries: tuple[Entry, ...]
