"""Reads a data set from a JSON file, and reports each mistake in the file with its place.

The pydantic models below define the format. A data set describes the invented history of a ledger. Each of
its *entries* describes one object, or a change that can be repeated, such as a daily payment. A value that
can vary is read as a range; for each repetition of an entry, a number is drawn from the range.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import dumps

DAYS_MAX = 3650
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


class BadDataSet(ValueError):
    """A mistake in a data set. The message begins with the mistake's place: `accounts[3].currency: …`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")


def _mistake(message: str, *, field: str = "") -> PydanticCustomError:
    """Return the error for a wrong value. If the value is an object, `field` names its wrong field."""
    return PydanticCustomError("mistake", "{message}", {"message": message, "field": field})


# Values


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """A range from which one integer is drawn. For a fixed integer, `least` equals `most`."""

    least: int
    most: int
    step: int = 1

    def draw(self, random: Random) -> int:
        # random() returns the same numbers in every version of Python; randrange() does not.
        return self.least + self.step * int(random.random() * ((self.most - self.least) // self.step + 1))


def between(least: int, most: int) -> BeforeValidator:
    """Return the validator of an integer from `least` to `most`."""

    def check(value: object) -> object:
        if not (type(value) is int and least <= value <= most):
            raise _mistake(f"must be an integer from {least} to {most}.")
        return value

    return BeforeValidator(check)


def _whole(value: object, least: int, most: int, field: str = "") -> IntegerRange:
    span = {"step": 1, **(value if isinstance(value, dict) else {"from": value, "to": value})}
    if set(span) != {"from", "to", "step"} or not all(type(each) is int for each in span.values()):
        raise _mistake(
            'must be an integer, or {"from", "to"} with two integers and optionally "step".', field=field
        )
    if not least <= span["from"] <= span["to"] <= most or span["step"] < 1:
        raise _mistake(
            f'must lie between {least} and {most}, "from" not above "to", and "step" at least 1.', field=field
        )
    return IntegerRange(span["from"], span["to"], span["step"])


def varying(least: int, most: int) -> PlainValidator:
    """Return the validator of an `IntegerRange`: the file contains an integer, or a range of integers."""
    return PlainValidator(lambda value: _whole(value, least, most))


def _minute(value: object) -> IntegerRange:
    first, _, last = value.partition("-") if isinstance(value, str) else ("", "", "")
    span = [_TIME.fullmatch(each) for each in (first, last or first)]
    if span[0] is None or span[1] is None:
        raise _mistake('must be like "09:30", or like "08:00-17:30" for a random time between the two.')
    least, most = (int(each[1]) * 60 + int(each[2]) for each in span if each is not None)
    if most < least:
        raise _mistake("must begin with the earlier time.")
    return IntegerRange(least, most)


def _texts(value: object) -> object:
    choices = value if isinstance(value, list) else [value]
    if not choices or not all(isinstance(each, str) for each in choices):
        raise _mistake("must be a string, or a list of strings to choose from.")
    return choices


def _item(value: object) -> object:
    """Return an item of an order. It may have any fields; `quantity` and `unit_amount` may be ranges."""
    if not isinstance(value, dict):
        raise _mistake("must be an object.")
    spans = {
        name: _whole(value[name], least, MAX_AMOUNT, name)
        for name, least in (("quantity", 1), ("unit_amount", 0))
        if name in value
    }
    return {**value, **spans}


Texts = Annotated[list[str], BeforeValidator(_texts)]  # one of these texts is drawn
Minute = Annotated[IntegerRange, PlainValidator(_minute)]  # a minute of the day
Day = Annotated[int, between(1, DAYS_MAX)]
Days = Annotated[IntegerRange, varying(0, DAYS_MAX)]  # the number of days until something happens
Amount = Annotated[IntegerRange, varying(1, MAX_AMOUNT)]
Item = Annotated[dict[str, Any], BeforeValidator(_item)]

ONCE = IntegerRange(1, 1)
EARLY = _minute("00:00-04:59")
BY_DAY = _minute("08:00-19:59")


# Entries


class _Fields(BaseModel):
    """An object in the file: unknown fields are refused, and values are not converted."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Once(_Fields):
    """An object that is created once. Other entries refer to the object by `ref`.

    Unless the file sets another time, the object is created early on the entry's day, before other entries of
    this day use the object.
    """

    ref: str
    day: Day = 1
    time: Minute = EARLY


class Repeat(_Fields):
    """The repetition of an entry, from the entry's day to the day `until`.

    By default, `until` is the history's last day. The entry happens on its first day and then again every
    `every` days. On each of these days it happens `per_day` times.
    """

    until: Day | None = None
    every: Day = 1
    per_day: Annotated[IntegerRange, varying(0, 1000)] = ONCE


class RepeatedEntry(_Fields):
    """An entry whose changes happen once on its day or, with `repeat`, several times."""

    day: Day = 1
    time: Minute = BY_DAY
    repeat: Repeat | None = None


class AccountEntry(Once):
    name: str
    currency: str
    metadata: dict[str, str] = Field(default_factory=dict)


class UserEntry(Once):
    name: str
    email: str
    role: str = "member"
    deactivate_after: Days | None = None


class Fee(_Fields):
    """A fee: `percent` of a transaction's amount goes from the transaction's account to the account `to`."""

    percent: Annotated[int, between(1, 99)]
    to: str
    description: str = "Fee"


class Reverse(_Fields):
    """Reversals: on average `share` percent of the transactions are reversed, each `after` days later."""

    share: Annotated[int, between(1, 100)] = 100
    after: Days


class TransactionEntry(RepeatedEntry):
    """Transactions. The amount "all" in the file, here None, means the account's whole balance."""

    account: Texts
    type: str
    amount: Annotated[
        IntegerRange | None,
        PlainValidator(lambda value: None if value == "all" else _whole(value, 1, MAX_AMOUNT)),
    ]
    description: Texts | None = None
    destination: Texts | None = None
    fee: Fee | None = None
    reverse: Reverse | None = None


class LineEntry(_Fields):
    description: str
    quantity: Amount = ONCE
    unit_amount: Annotated[IntegerRange, varying(0, MAX_AMOUNT)]


class InvoiceEntry(RepeatedEntry):
    """Invoices. Each has `pick` of the `lines`, drawn at random; if `pick` is missing, it has all lines.

    An invoice is finalized `finalize_after` days after its draft. It is paid `pay_after` days after it was
    finalized, or voided `void_after` days after it was finalized.
    """

    account: str
    customer: Texts
    amount: Amount | None = None
    lines: list[LineEntry] = Field(default_factory=list)
    pick: Amount | None = None
    due_in: Annotated[int, between(0, DAYS_MAX)] | None = None
    description: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    finalize_after: Days | None = None
    pay_after: Days | None = None
    void_after: Days | None = None

    @model_validator(mode="after")
    def _check(self) -> InvoiceEntry:
        if (self.amount is None) == (not self.lines):
            raise _mistake("is required without lines, and forbidden with lines.", field="amount")
        _check_pick(self.pick, len(self.lines))
        if self.finalize_after is None and (self.pay_after or self.void_after) is not None:
            raise _mistake("is required for an invoice that is paid or voided.", field="finalize_after")
        if self.pay_after is not None and self.void_after is not None:
            raise _mistake("is forbidden for an invoice that is paid.", field="void_after")
        return self


class OrderEntry(RepeatedEntry):
    """Orders. Each has `pick` of the `items`, drawn at random; if `pick` is missing, it has all items.

    An order is paid `pay_after` days after it was placed, and shipped `ship_after` days after the payment.
    """

    user: Texts
    items: list[Item] = Field(default_factory=list)
    pick: Amount | None = None
    pay_after: Days | None = None
    ship_after: Days | None = None

    @model_validator(mode="after")
    def _check(self) -> OrderEntry:
        _check_pick(self.pick, len(self.items))
        if self.pay_after is None and self.ship_after is not None:
            raise _mistake("is required for an order that is shipped.", field="pay_after")
        return self


def _check_pick(pick: IntegerRange | None, choices: int) -> None:
    if pick is not None and pick.most > max(1, choices):
        raise _mistake(f"must lie between 1 and {max(1, choices)}.", field="pick")


Entry = AccountEntry | UserEntry | TransactionEntry | InvoiceEntry | OrderEntry


# The whole file


class Contents(_Fields):
    """The content of a file; `about` describes the data set to people who read the file."""

    title: str
    about: str = ""
    days: Day
    accounts: list[AccountEntry] = Field(default_factory=list)
    users: list[UserEntry] = Field(default_factory=list)
    transactions: list[TransactionEntry] = Field(default_factory=list)
    invoices: list[InvoiceEntry] = Field(default_factory=list)
    orders: list[OrderEntry] = Field(default_factory=list)

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Yield each entry with its place, such as `accounts[3]`."""
        for kind in ("accounts", "users", "transactions", "invoices", "orders"):
            for position, entry in enumerate(getattr(self, kind)):
                yield f"{kind}[{position}]", entry

    @model_validator(mode="after")
    def _check(self) -> Contents:
        accounts = _refs("accounts", self.accounts)
        users = _refs("users", self.users)
        for place, entry in self.entries():
            if entry.day > self.days:
                raise _mistake(f"must be an integer from 1 to {self.days}.", field=f"{place}.day")
            if isinstance(entry, RepeatedEntry) and entry.repeat is not None:
                _check_until(place, entry.day, entry.repeat, self.days)
            for name, refs in _references(entry).items():
                for ref in refs:
                    if ref not in (users if name == "user" else accounts):
                        raise _mistake(f"there is no ref {ref!r}.", field=f"{place}.{name}")
        return self


def _refs(kind: str, entries: Sequence[Once]) -> set[str]:
    refs: set[str] = set()
    for position, entry in enumerate(entries):
        if entry.ref in refs:
            raise _mistake(f"{entry.ref!r} is already used.", field=f"{kind}[{position}].ref")
        refs.add(entry.ref)
    return refs


def _check_until(place: str, day: int, repeat: Repeat, days: int) -> None:
    if repeat.until is not None and not day <= repeat.until <= days:
        raise _mistake(f"must be an integer from {day} to {days}.", field=f"{place}.repeat.until")


def _references(entry: Entry) -> dict[str, list[str]]:
    """Return the refs that an entry contains, by the name of the field that contains them."""
    match entry:
        case TransactionEntry(account=account, destination=destination, fee=fee):
            return {"account": account, "destination": destination or [], "fee.to": [fee.to] if fee else []}
        case InvoiceEntry(account=account):
            return {"account": [account]}
        case OrderEntry(user=user):
            return {"user": user}
    return {}


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set: the name of its file, and its entries by their places in the file.

    The history lasts `days` days and ends yesterday.
    """

    name: str
    title: str
    days: int
    entries: dict[str, Entry]


# Reading


def read(file: Path) -> DataSet:
    """Return the data set in a file. Raises BadDataSet, and OSError if the file cannot be read."""
    try:
        text = file.read_bytes().decode()
        value = json.loads(text, object_pairs_hook=_without_duplicates)
        dumps(value).encode()  # fails for lone surrogates, and for numbers that JSON does not have
    except json.JSONDecodeError as error:
        raise BadDataSet(f"{file.name}:{error.lineno}:{error.colno}", f"{error.msg}.") from None
    except RecursionError:
        raise BadDataSet(file.name, "it is nested too deeply.") from None
    except ValueError as error:
        raise BadDataSet(file.name, f"{error}.") from None
    if _NUL.search(text):
        raise BadDataSet(file.name, "the character U+0000 cannot be stored.")
    try:
        contents = Contents.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadDataSet(_place(first) or file.name, _MESSAGES.get(first["type"], first["msg"])) from None
    return DataSet(file.stem, contents.title, contents.days, dict(contents.entries()))


_MESSAGES = {
    "missing": "is missing.",
    "extra_forbidden": "is not a known field.",
    "string_type": "must be a string.",
    "list_type": "must be a list.",
    "dict_type": "must be an object with string values.",
    "model_type": "must be an object.",
}


def _place(error: ErrorDetails) -> str:
    place = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in error["loc"])
    field = error.get("ctx", {}).get("field", "")
    return f"{place}.{field}".strip(".")


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
    """Return the path of an included data set, or of any JSON file.

    If an included data set has this name, a file of the same name in the working directory is not used.
    Raises FileNotFoundError with a message that lists the names.
    """
    bundled_file = _folder() / f"{name_or_path}.json"
    if name_or_path in names():
        return bundled_file
    file = Path(name_or_path).expanduser()
    if file.is_file():
        return file
    raise FileNotFoundError(
        f"There is no data set {name_or_path!r}: give a JSON file or one of {', '.join(names())}."
    )


def _folder() -> Path:
    here = Path(__file__).resolve()
    installed_folder = here.with_name("seeds")
    return installed_folder if installed_folder.is_dir() else here.parents[4] / "seeds"
