"""What a screen is declared with. A resource file fills these in; one generic view draws them all."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from ledger_tui.client.api import Api
from ledger_tui.client.lists import Paging
from ledger_tui.state.names import AccountNames
from ledger_tui.state.text import literal
from ledger_tui.state.window import Record

Tone = Literal["plain", "dim", "strong", "plus", "minus", "warn", "bad", "accent"]
Filters = Mapping[str, str]


class Cell(NamedTuple):
    """A piece of text, already safe to draw, and how it is toned."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Column:
    """A column of a list. When the room is short the column of the highest `rank` goes first.

    `width` is in cells; a column with `grow` shares what is left over.
    """

    title: str
    width: int
    cell: Callable[[Record, AccountNames], Cell]
    align: Literal["left", "right"] = "left"
    grow: int = 0
    rank: int = 0


class Link(NamedTuple):
    """A way from a record to another screen: one object, or a filtered list."""

    label: str
    resource: str
    record_id: str | None = None
    filters: Mapping[str, str] = {}


class Fact(NamedTuple):
    label: str
    value: Cell


Drawing = Callable[[int], Sequence[Sequence[Cell]]]


@dataclass(frozen=True)
class Section:
    """Facts in aligned lines, under a drawing if there is one: lines of cells for a width.

    A drawing is compared with the one before, to see whether anything is to be drawn: give it an `__eq__`.
    """

    title: str
    facts: tuple[Fact, ...] = ()
    drawing: Drawing | None = None


@dataclass(frozen=True)
class Detail:
    """A record in full: a headline, facts in sections, links."""

    headline: Cell
    sections: tuple[Section, ...]
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Filter:
    """A filter the server runs, typed as `name:value`. `check` says what is wrong with a value, or None;
    where it takes an `account`, its name does in place of the id."""

    name: str
    param: str
    example: str
    check: Callable[[str], str | None] = lambda _value: None
    account: bool = False


FieldKind = Literal["text", "currency", "account", "amount", "choice", "metadata", "items", "words"]


@dataclass(frozen=True)
class Field:
    """One entry of a form. `name` is the field's name on the wire, by which the server's `param` finds it."""

    name: str
    label: str
    kind: FieldKind = "text"
    required: bool = True
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()  # (value on the wire, text shown)


@dataclass(frozen=True)
class Form:
    """How an object of this kind is created, or one is edited (PATCH: only what was changed is sent)."""

    title: str
    verb: str
    done: str  # what is said after, e.g. "Posted"
    path: str
    fields: tuple[Field, ...]
    prefill: Callable[[Record | None, Filters], Mapping[str, str]] = lambda _record, _filters: {}
    method: Literal["POST", "PATCH"] = "POST"
    shows_once: str | None = None  # the field of the answer that holds a secret, shown this once


@dataclass(frozen=True)
class Action:
    """Something that can be done with an object in the right state: a request to `path/{id}` + `suffix`,
    or to where `target` says."""

    name: str
    key: str
    label: str
    done: str  # what is said after, e.g. "Paid"
    allowed: Callable[[Record], bool]
    method: Literal["POST", "DELETE"] = "POST"
    suffix: str = ""
    final: bool = False  # it cannot be taken back, so it asks first, and in live mode for the id
    asks: str = ""  # how the question begins, where the label does not do
    creates: bool = False  # it makes an object, so it carries an idempotency key
    target: Callable[[Record], str] | None = None
    shows_once: str | None = None  # the field of the answer that holds a secret, shown this once
    part: str | None = None  # set when it goes beyond the interface


class Way(NamedTuple):
    """A key that leads to another list: `link` is where to, from the selected object and the filters."""

    name: str
    key: str
    label: str
    link: Callable[[Record | None, Filters], Link | None]


class More(NamedTuple):
    """What a detail shows beyond the record itself: read when the eye rests on the object, then drawn.

    `load` gives anything `sections` understands, and may raise ClientError.
    """

    load: Callable[[Api, Record], Awaitable[Any]]
    sections: Callable[[Record, Any, AccountNames], tuple[Section, ...]]


@dataclass(frozen=True)
class Place:
    """A screen of the dashboard: its name in links, its number key ("" where other screens lead to it)."""

    kind: str
    key: str
    title: str
    short: str


@dataclass(frozen=True)
class Resource(Place):
    """A kind of object: where its list is, how it looks, what can be done with it.

    A name between braces in `path` stands for the filter of that name.
    """

    singular: str
    path: str
    id_prefix: str
    columns: tuple[Column, ...]
    detail: Callable[[Record, AccountNames], Detail]
    paging: Paging = "starting_after"
    filters: tuple[Filter, ...] = ()
    form: Form | None = None
    # None where its state forbids it.
    edit: Callable[[Record, AccountNames], Form | None] = lambda _record, _names: None
    edits: bool = False  # whether objects of this kind can be edited at all
    actions: tuple[Action, ...] = ()
    ways: tuple[Way, ...] = ()
    more: More | None = None
    under: str | None = None  # the kind of the screen it belongs to, where it has no key of its own
    changes: bool = False  # whether a record changes after it was made, so that it is worth reading again
    has_object_path: bool = True  # whether one object can be read at `path/{id}`
    part: str | None = None  # set when the list itself goes beyond the interface
    lacks: str = ""  # what is said where the server has no such list
    empty: str = "Nothing here yet."
    account_ids: Callable[[Record], tuple[object, ...]] = field(default=lambda _record: ())

    @property
    def still(self) -> bool:
        """Whether the list is as it is: nothing comes in on top."""
        return self.paging == "statement"

    def object_path(self, record_id: object) -> str:
        """Where one object is read and changed."""
        return f"{self.path}/{quote(str(record_id), safe='')}"

    def list_path(self, filters: Filters) -> tuple[str, dict[str, str]] | None:
        """The list's path and its query; None while a filter that the path needs is not chosen."""
        params = dict(filters)
        path = self.path
        for name in _PATH_NAME.findall(path):
            value = params.pop(name, None)
            if value is None:
                return None
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        return path, params


# ---------------------------------------------------------------------- shared cells

_PATH_NAME = re.compile(r"{(\w+)}")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)")


def currency_of(record: Record, names: AccountNames) -> str | None:
    """A record's own currency, else that of its account; None when neither is known."""
    own = record.get("currency")
    return own if isinstance(own, str) else names.currency(record.get("account"))


def text_of(record: Record, name: str, tone: Tone = "plain") -> Cell:
    """A field as text; an absent or null one is a dim dash."""
    value: Any = record.get(name)
    return Cell("–", "dim") if value is None else Cell(literal(value), tone)


def time_of(record: Record, name: str) -> Cell:
    """An ISO 8601 UTC time as `2026-11-20 04:31:00`."""
    value = record.get(name)
    found = _TIME.match(value) if isinstance(value, str) else None
    return Cell(f"{found[1]} {found[2]}", "dim") if found else text_of(record, name, "dim")


def clock_of(record: Record, name: str) -> Cell:
    """A time as `11-20 04:31:00`, for logs: what is in them is of these days."""
    time = time_of(record, name)
    return Cell(time.text[5:], time.tone) if len(time.text) == 19 else time


def status_of(record: Record, looks: Mapping[str, tuple[str, Tone]]) -> Cell:
    """A status with its glyph, so that its colour is never needed."""
    status = str(record.get("status"))
    glyph, tone = looks.get(status, ("·", "plain"))
    return Cell(f"{glyph} {literal(status)}", tone) if "status" in record else Cell("–", "dim")


def mode_of(record: Record) -> Cell:
    """LIVE is a word, not only a colour."""
    livemode = record.get("livemode")
    if not isinstance(livemode, bool):
        return Cell("–", "dim")
    return Cell("LIVE", "warn") if livemode else Cell("test", "dim")
