"""What a screen is declared with. A resource file fills these in; one generic view draws them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

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


@dataclass(frozen=True)
class Section:
    title: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Detail:
    """A record in full: a headline, facts in sections, links."""

    headline: Cell
    sections: tuple[Section, ...]
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Filter:
    """A filter the server runs, typed as `name:value`. `check` says what is wrong with a value, or None."""

    name: str
    param: str
    example: str
    check: Callable[[str], str | None] = lambda _value: None


FieldKind = Literal["text", "currency", "account", "amount", "choice", "metadata", "items"]


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
    """How an object of this kind is created."""

    title: str
    verb: str
    done: str  # what is said after, e.g. "Posted"
    path: str
    fields: tuple[Field, ...]
    prefill: Callable[[Record | None, Filters], Mapping[str, str]] = lambda _record, _filters: {}


@dataclass(frozen=True)
class Action:
    """Something that can be done with an object in the right state: a request to `path/{id}` + `suffix`."""

    name: str
    key: str
    label: str
    done: str  # what is said after, e.g. "Paid"
    allowed: Callable[[Record], bool]
    method: Literal["POST", "DELETE"] = "POST"
    suffix: str = ""
    destructive: bool = False  # it asks first, and in live mode for the id
    creates: bool = False  # it makes an object, so it carries an idempotency key


@dataclass(frozen=True)
class Resource:
    """A kind of object: where its list is, how it looks, what can be done with it."""

    kind: str
    key: str
    title: str
    short: str
    singular: str
    path: str
    id_prefix: str
    columns: tuple[Column, ...]
    detail: Callable[[Record, AccountNames], Detail]
    paging: Paging = "starting_after"
    filters: tuple[Filter, ...] = ()
    form: Form | None = None
    actions: tuple[Action, ...] = ()
    changes: bool = False  # whether a record changes after it was made, so that it is worth reading again
    has_object_path: bool = True  # whether one object can be read at `path/{id}`
    part: str | None = None  # set when the list itself goes beyond the interface
    empty: str = "Nothing here yet."
    account_ids: Callable[[Record], tuple[object, ...]] = field(default=lambda _record: ())


# ---------------------------------------------------------------------- shared cells

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)")


def text_of(record: Record, name: str, tone: Tone = "plain") -> Cell:
    """A field as text; an absent or null one is a dim dash."""
    value: Any = record.get(name)
    return Cell("–", "dim") if value is None else Cell(literal(value), tone)


def time_of(record: Record, name: str) -> Cell:
    """An ISO 8601 UTC time as `2026-11-20 04:31:00`."""
    value = record.get(name)
    found = _TIME.match(value) if isinstance(value, str) else None
    return Cell(f"{found[1]} {found[2]}", "dim") if found else text_of(record, name, "dim")


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
