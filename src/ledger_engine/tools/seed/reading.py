"""Data sets: their entries, and reading of one from a JSON file, with a clear message for each mistake.

Values that may vary between repetitions are drawn when the data set is loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import dumps

# Entries


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
        # random() is the only method that gives the same numbers on every version of Python.
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

    path: str
    when: When
    ref: str
    name: str
    currency: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class UserEntry:
    path: str
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

    path: str
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

    path: str
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

    path: str
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


_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


_MISSING: Any = object()


class BadDataSet(ValueError):
    """A mistake in a data set; the message begins with its path, such as `accounts[3].currency: …`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")


class Fields:
    """The fields of one JSON object, to be taken one by one; `end` fails on any that are left."""

    def __init__(self, value: object, path: str, called: str) -> None:
        if not isinstance(value, dict):
            raise BadDataSet(called, "must be an object.")
        self._value: dict[str, Any] = dict(value)
        self.path = path

    def fail(self, name: str, message: str) -> NoReturn:
        raise BadDataSet(f"{self.path}.{name}" if self.path else name, message)

    def take(self, name: str, default: Any = _MISSING) -> Any:
        if name not in self._value and default is _MISSING:
            self.fail(name, "is missing.")
        return self._value.pop(name, default)

    def end(self) -> None:
        for name in self._value:
            self.fail(name, "is not a known field.")

    def text(self, name: str, default: Any = _MISSING) -> Any:
        value = self.take(name, default)
        if value is not default and not isinstance(value, str):
            self.fail(name, "must be a string.")
        return value

    def texts(self, name: str, default: Any = _MISSING) -> Any:
        value = self.take(name, default)
        if value is default:
            return value
        choices = value if isinstance(value, list) else [value]
        if not choices or not all(isinstance(each, str) for each in choices):
            self.fail(name, "must be a string, or a list of strings to choose from.")
        return Texts(tuple(choices))

    def whole(self, name: str, least: int, most: int, default: Any = _MISSING) -> Any:
        value = self.take(name, default)
        if value is not default and not (type(value) is int and least <= value <= most):
            self.fail(name, f"must be an integer from {least} to {most}.")
        return value

    def varying(self, name: str, least: int, most: int, default: Any = _MISSING) -> Any:
        value = self.take(name, default)
        return value if value is default else self.parse_varying(name, value, least, most)

    def parse_varying(self, name: str, value: object, least: int, most: int) -> Whole:
        if not isinstance(value, dict):
            value = {"from": value, "to": value}
        span = {"step": 1, **value}
        whole = all(type(each) is int for each in span.values())
        if set(span) != {"from", "to", "step"} or not whole:
            self.fail(name, 'must be an integer or {"from", "to"} with two, and "step" if not 1.')
        if not least <= span["from"] <= span["to"] <= most or span["step"] < 1:
            self.fail(name, f"must lie between {least} and {most}, from the smaller to the larger.")
        return Whole(span["from"], span["to"], span["step"])

    def list(self, name: str) -> list[Any]:
        value = self.take(name, [])
        if not isinstance(value, list):
            self.fail(name, "must be a list.")
        return value

    def object(self, name: str) -> Fields | None:
        value = self.take(name, None)
        path = f"{self.path}.{name}"
        return None if value is None else Fields(value, path, path)

    def metadata(self) -> dict[str, str]:
        value = self.take("metadata", {})
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            self.fail("metadata", "must be an object with string values.")
        return value

    def when(self, days: int) -> When:
        day = self.whole("day", 1, days, 1)
        until, every, per_day = day, 1, Whole(1, 1)
        repeat = self.object("repeat")
        if repeat is not None:
            until = repeat.whole("until", day, days, days)
            every = repeat.whole("every", 1, days, 1)
            per_day = repeat.varying("per_day", 0, 1000, Whole(1, 1))
            repeat.end()
        return When(day, until, every, per_day, self._minute("08:00-19:59"))

    def when_once(self, days: int) -> When:
        """Return a single day and an early minute, so that whatever happens later on that day finds it."""
        day = self.whole("day", 1, days, 1)
        return When(day, day, 1, Whole(1, 1), self._minute("00:00-04:59"))

    def _minute(self, default: str) -> Whole:
        value = self.take("time", default)
        first, _, last = value.partition("-") if isinstance(value, str) else ("", "", "")
        span = [_TIME.fullmatch(each) for each in (first, last or first)]
        if span[0] is None or span[1] is None:
            self.fail("time", 'must be like "09:30", or "08:00-17:30" for some time between.')
        least, most = (int(each[1]) * 60 + int(each[2]) for each in span if each is not None)
        if most < least:
            self.fail("time", "must go from the earlier to the later.")
        return Whole(least, most)


# Reading


DAYS_MAX = 3650
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def read(file: Path) -> DataSet:
    """Return the data set in a file. Raises BadDataSet, and OSError when the file cannot be read."""
    try:
        text = file.read_bytes().decode()
        value = json.loads(text, object_pairs_hook=_without_duplicates)
        dumps(value).encode()  # fails for lone surrogates and for numbers that JSON does not have
    except json.JSONDecodeError as error:
        raise BadDataSet(f"{file.name}:{error.lineno}:{error.colno}", f"{error.msg}.") from None
    except RecursionError:
        raise BadDataSet(file.name, "it is nested too deeply.") from None
    except ValueError as error:
        raise BadDataSet(file.name, f"{error}.") from None
    if _NUL.search(text):
        raise BadDataSet(file.name, "the character U+0000 cannot be stored.")
    fields = Fields(value, "", file.name)
    title = fields.text("title")
    fields.text("about", "")
    days = fields.whole("days", 1, DAYS_MAX)
    entries: list[Entry] = []
    for kind, parse in _KINDS.items():
        for position, each in enumerate(fields.list(kind)):
            path = f"{kind}[{position}]"
            of_entry = Fields(each, path, path)
            entries.append(parse(of_entry, days))
            of_entry.end()
    fields.end()
    _check_references(entries)
    return DataSet(file.stem, title, days, tuple(entries))


def _account(fields: Fields, days: int) -> AccountEntry:
    return AccountEntry(
        fields.path,
        fields.when_once(days),
        fields.text("ref"),
        fields.text("name"),
        fields.text("currency"),
        fields.metadata(),
    )


def _user(fields: Fields, days: int) -> UserEntry:
    return UserEntry(
        fields.path,
        fields.when_once(days),
        fields.text("ref"),
        fields.text("name"),
        fields.text("email"),
        fields.text("role", "member"),
        fields.varying("deactivate_after", 0, days, None),
    )


def _transaction(fields: Fields, days: int) -> TransactionEntry:
    reverse = fields.object("reverse")
    amount = fields.take("amount")
    entry = TransactionEntry(
        fields.path,
        fields.when(days),
        fields.texts("account"),
        fields.text("type"),
        None if amount == "all" else fields.parse_varying("amount", amount, 1, MAX_AMOUNT),
        fields.texts("description", None),
        fields.texts("destination", None),
        _fee(fields.object("fee")),
        0 if reverse is None else reverse.whole("share", 1, 100, 100),
        None if reverse is None else reverse.varying("after", 0, days),
    )
    if reverse is not None:
        reverse.end()
    return entry


def _fee(fields: Fields | None) -> Fee | None:
    if fields is None:
        return None
    fee = Fee(fields.whole("percent", 1, 99), fields.text("to"), fields.text("description", "Fee"))
    fields.end()
    return fee


def _line(fields: Fields) -> LineEntry:
    line = LineEntry(
        fields.text("description"),
        fields.varying("quantity", 1, MAX_AMOUNT, Whole(1, 1)),
        fields.varying("unit_amount", 0, MAX_AMOUNT),
    )
    fields.end()
    return line


def _invoice(fields: Fields, days: int) -> InvoiceEntry:
    lines = []
    for position, each in enumerate(fields.list("lines")):
        path = f"{fields.path}.lines[{position}]"
        lines.append(_line(Fields(each, path, path)))
    entry = InvoiceEntry(
        fields.path,
        fields.when(days),
        fields.text("account"),
        fields.texts("customer"),
        fields.varying("amount", 1, MAX_AMOUNT, None),
        tuple(lines),
        fields.varying("pick", 1, max(1, len(lines)), None),
        fields.whole("due_in", 0, DAYS_MAX, None),
        fields.text("description", None),
        fields.metadata(),
        fields.varying("finalize_after", 0, days, None),
        fields.varying("pay_after", 0, days, None),
        fields.varying("void_after", 0, days, None),
    )
    if (entry.amount is None) == (not lines):
        fields.fail("amount", "must be given, or lines; not both.")
    if entry.finalize_after is None and (entry.pay_after or entry.void_after) is not None:
        fields.fail("finalize_after", "must be given for an invoice that is paid or voided.")
    if entry.pay_after is not None and entry.void_after is not None:
        fields.fail("void_after", "must not be given for an invoice that is paid.")
    return entry


def _order(fields: Fields, days: int) -> OrderEntry:
    items = []
    for position, each in enumerate(fields.list("items")):
        if not isinstance(each, dict):
            fields.fail(f"items[{position}]", "must be an object.")
        item = Fields(each, f"{fields.path}.items[{position}]", "")
        ranges = {
            name: item.varying(name, least, MAX_AMOUNT)
            for name, least in (("quantity", 1), ("unit_amount", 0))
            if name in each
        }
        items.append({**each, **ranges})
    entry = OrderEntry(
        fields.path,
        fields.when(days),
        fields.texts("user"),
        tuple(items),
        fields.varying("pick", 1, max(1, len(items)), None),
        fields.varying("pay_after", 0, days, None),
        fields.varying("ship_after", 0, days, None),
    )
    if entry.pay_after is None and entry.ship_after is not None:
        fields.fail("pay_after", "must be given for an order that is shipped.")
    return entry


_KINDS: dict[str, Callable[[Fields, int], Entry]] = {
    "accounts": _account,
    "users": _user,
    "transactions": _transaction,
    "invoices": _invoice,
    "orders": _order,
}


def _check_references(entries: list[Entry]) -> None:
    accounts: set[str] = set()
    users: set[str] = set()
    for entry in entries:
        if isinstance(entry, AccountEntry | UserEntry):
            known = accounts if isinstance(entry, AccountEntry) else users
            if entry.ref in known:
                raise BadDataSet(f"{entry.path}.ref", f"{entry.ref!r} is already used.")
            known.add(entry.ref)
    for entry in entries:
        for name, refs, known in _references(entry, accounts, users):
            for ref in refs:
                if ref not in known:
                    raise BadDataSet(f"{entry.path}.{name}", f"there is no ref {ref!r}.")


def _references(
    entry: Entry, accounts: set[str], users: set[str]
) -> list[tuple[str, tuple[str, ...], set[str]]]:
    if isinstance(entry, TransactionEntry):
        return [
            ("account", entry.accounts.choices, accounts),
            ("destination", entry.destinations.choices if entry.destinations else (), accounts),
            ("fee.to", (entry.fee.to,) if entry.fee else (), accounts),
        ]
    if isinstance(entry, InvoiceEntry):
        return [("account", (entry.account,), accounts)]
    if isinstance(entry, OrderEntry):
        return [("user", entry.users.choices, users)]
    return []


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} occurs twice in one object")
    return value


def names() -> list[str]:
    """Return the names of the included data sets (the files' stems), sorted."""
    return sorted(file.stem for file in _folder().glob("*.json"))


def path(name_or_path: str) -> Path:
    """Return the path of a data set: one of `names()`, or any JSON file by its path.

    An included name comes first, so that a file that happens to be in the working directory has no effect.
    Raises FileNotFoundError, whose message lists the names.
    """
    bundled = _folder() / f"{name_or_path}.json"
    if name_or_path in names():
        return bundled
    file = Path(name_or_path).expanduser()
    if file.is_file():
        return file
    raise FileNotFoundError(
        f"There is no data set {name_or_path!r}: give a JSON file or one of {', '.join(names())}."
    )


def _folder() -> Path:
    here = Path(__file__).resolve()
    installed = here.with_name("seeds")
    return installed if installed.is_dir() else here.parents[4] / "seeds"
