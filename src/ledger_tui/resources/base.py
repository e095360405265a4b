"""The declarations of a screen. A resource file fills these in; one generic view draws them all."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from ledger_client.errors import LedgerError
from ledger_tui.client.api import Api
from ledger_tui.client.lists import Paging, paging_of
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats import times
from ledger_tui.formats.money import format_amount
from ledger_tui.formats.text import literal

Tone = Literal["plain", "dim", "strong", "plus", "minus", "warn", "bad", "accent"]
Filters = Mapping[str, str]


class Cell(NamedTuple):
    """A piece of text, already safe to draw, and its tone."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Column:
    """A column of a list. When space is short, the column with the highest `rank` is hidden first.

    `width` is in cells; columns with `grow` share what is left over. An `easy` column gets that width before
    a column of a higher rank is shown.
    """

    title: str
    width: int
    cell: Callable[[Record, AccountNames], Cell]
    align: Literal["left", "right"] = "left"
    grow: int = 0
    rank: int = 0
    most: int = 0  # a column with `grow` gets no wider than this; 0 for no maximum
    easy: int = 0
    short: int = 0  # the cells shown of the end of its text when space is short
    by: str = ""  # the field that rows are sorted by, if it is not the shown text

    @property
    def name(self) -> str:
        """Return the column's name in the config file."""
        return self.title.removesuffix(" (UTC)")


class Via(NamedTuple):
    """The object of a link, found when the link is followed: in the list at `path`.

    It is the first record whose field `where` equals `equals`, or any if there is no `where`; with `named` it
    is the object whose id is in that record's field of this name.
    """

    path: str
    where: str = ""
    equals: str = ""
    named: str = ""
    query: tuple[tuple[str, str], ...] = ()


class Link(NamedTuple):
    """A link from a record to another screen: to one object, or to a filtered list."""

    label: str
    resource: str
    record_id: str | None = None
    filters: Mapping[str, str] = {}
    via: Via | None = None


class Fact(NamedTuple):
    label: str
    value: Cell


Drawing = Callable[[int], Sequence[Sequence[Cell]]]


@dataclass(frozen=True)
class Section:
    """Facts in aligned lines, under a drawing if there is one: a function from a width to lines of cells.

    A drawing is compared with the last one, to decide whether to draw again: give it an `__eq__`.
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
    """A filter that the server applies, typed as `name:value`.

    `check` returns what is wrong with a value, or None. A filter with `account` accepts a name in place of
    the id, one with `user` also a user's.

    With `matches` it is no filter of the server's: it selects among the loaded rows, by a record, the value
    and the names. Without a value, `default` applies.
    """

    name: str
    param: str
    example: str
    check: Callable[[str], str | None] = lambda _value: None
    account: bool = False
    user: bool = False
    suggests: Callable[[], Sequence[str]] = tuple  # values to choose from while typing
    matches: Callable[[Record, str, AccountNames], bool] | None = None
    default: str = ""


FieldKind = Literal[
    "text", "currency", "account", "user", "amount", "lines", "choice", "metadata", "items", "words"
]


@dataclass(frozen=True)
class Field:
    """One field of a form. `name` is the field's name on the wire, which the server's `param` refers to."""

    name: str
    label: str
    kind: FieldKind = "text"
    required: bool = True
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()  # (value on the wire, text shown)


@dataclass(frozen=True)
class Form:
    """A form to create an object of this kind, or to edit one (PATCH: only changed fields are sent)."""

    title: str
    done: str  # shown after it, e.g. "Posted"
    fields: tuple[Field, ...]
    path: str = ""  # its address, if it is not the path of the list
    prefill: Callable[[Record | None, Filters], Mapping[str, str]] = lambda _record, _filters: {}
    method: Literal["POST", "PATCH"] = "POST"
    shows_once: str | None = None  # the field of the answer with a secret, shown only once
    either: tuple[str, ...] = ()  # fields of which exactly one is given
    moves_money: bool = False  # in live mode the amount must be typed once more before it is sent
    sends: tuple[tuple[str, str], ...] = ()  # sent together with the fields


@dataclass(frozen=True)
class ResourceAction:
    """An action on an object in the right state, with the path that `Resource.action_path` returns."""

    name: str
    key: str
    label: str
    done: str  # after it the object is this, if its status does not say it: "Paid"
    allowed: Callable[[Record], bool] = lambda _record: True
    method: Literal["POST", "DELETE"] = "POST"
    verb: str = ""  # the end of its path, if that is not its name
    after: str = ""  # the name of the action that must come first, if there is one
    final: bool = False  # it cannot be undone, so it asks first, and in live mode for a number or a name
    asks: str = ""  # the beginning of the question, if the label does not fit
    creates: bool = False  # it creates an object, so it sends an idempotency key
    target: Callable[[Record], str] | None = None
    shows_once: str | None = None  # the field of the answer with a secret, shown only once
    part: str | None = None  # set when it goes beyond the contract
    why_not: str = ""  # shown if it is not allowed and the object's status is not the reason
    # the sentence shown after it, of the answer and the id
    result: Callable[[Record, str], str] | None = None


def in_state(*states: str | None) -> Callable[[Record], bool]:
    """Return the condition that an object is in one of these states; None: its state is unknown."""
    return lambda record: record.get("status") in states


class RelatedView(NamedTuple):
    """A key that leads to another list; `link` returns the link for the selected object and the filters."""

    name: str
    key: str
    label: str
    link: Callable[[Record | None, Filters], Link | None]


class More(NamedTuple):
    """A detail's figures beyond the record: read when the cursor stays on the object, then drawn.

    `load` returns what `sections` and `links` take. A LedgerError of it is shown under the `title`, if
    there is one.
    """

    load: Callable[[Api, Record], Awaitable[Any]]
    sections: Callable[[Record, Any, AccountNames], tuple[Section, ...]]
    title: str = ""
    links: Callable[[Record, Any], tuple[Link, ...]] = lambda _record, _more: ()

    def shown(
        self, record: Record, result: Any, names: AccountNames
    ) -> tuple[tuple[Section, ...], tuple[Link, ...]]:
        """Return the sections and the links of the records read, or of the LedgerError in their place."""
        if not isinstance(result, LedgerError):
            return self.sections(record, result, names), self.links(record, result)
        facts = (Fact("", Cell(literal(result), "minus")),)
        return (Section(self.title, facts),) if self.title else (), ()


@dataclass(frozen=True)
class Place:
    """A screen of the dashboard: its name in links, its number key ("" where other screens lead to it)."""

    kind: str
    title: str
    key: str = ""
    short: str = ""


@dataclass(frozen=True, kw_only=True)
class Resource(Place):
    """A kind of object: where its list is, how it is shown, what can be done with it.

    A name in braces in `path` stands for the filter of that name.
    """

    singular: str
    path: str
    id_prefix: str = ""
    columns: tuple[Column, ...]
    detail: Callable[[Record, AccountNames], Detail]
    filters: tuple[Filter, ...] = ()
    form: Form | None = None
    # None when the object's state does not allow it.
    edit: Callable[[Record, AccountNames], Form | None] = lambda _record, _names: None
    transfer: Form | None = None  # the form that moves money from one account to another
    edits: bool = False  # whether objects of this kind can be edited at all
    actions: tuple[ResourceAction, ...] = ()
    related: tuple[RelatedView, ...] = ()
    more: More | None = None
    under: str | None = None  # the kind of the screen that it belongs to, when it has no key of its own
    # whether records change after they were created, so that they are worth reading again
    changes: bool = False
    has_object_path: bool = True  # whether one object can be read at `path/{id}`
    object_part: str | None = None  # set when reading one object goes beyond the contract
    part: str | None = None  # set when the list itself goes beyond the contract
    missing_text: str = ""  # shown when the server lacks the list
    empty: str = "Nothing here yet."
    invites: str = ""  # shown after it where one may be created
    account_ids: Callable[[Record], tuple[object, ...]] = field(default=lambda _record: ())
    names_users: bool = False  # whether its rows name users by their ids
    # What the server counts of the whole list, in words; the parts that it lacks are given too.
    counted: Callable[[Record, Collection[str]], str] = lambda _summary, _missing: ""

    @property
    def paging(self) -> Paging:
        """Return how the list is read page by page."""
        return paging_of(self.path)

    @property
    def still(self) -> bool:
        """Return whether the list cannot grow: no new rows come in on top."""
        return self.paging == "statement"

    def action(self, name: str) -> ResourceAction | None:
        """Return the action of this name, if objects of this kind allow it."""
        return next((action for action in self.actions if action.name == name), None)

    def related_view(self, name: str) -> RelatedView | None:
        """Return the screen of this name, if one of this kind leads there."""
        return next((view for view in self.related if view.name == name), None)

    def object_path(self, record_id: object) -> str:
        """Return the path where one object is read and changed."""
        return f"{self.path}/{quote(str(record_id), safe='')}"

    def action_path(self, action: ResourceAction, record: Record) -> str:
        """Return the path to which the request of an action goes."""
        if action.target is not None:
            return action.target(record)
        verb = "" if action.method == "DELETE" else f"/{action.verb or action.name}"
        return self.object_path(record.get("id")) + verb

    def list_path(self, filters: Filters) -> tuple[str, dict[str, str]] | None:
        """Return the list's path and query; None while a filter that the path needs is missing."""
        here = {each.param for each in self.filters if each.matches is not None}
        params = {name: value for name, value in filters.items() if name not in here}
        path = self.path
        for name in _PATH_NAME.findall(path):
            value = params.pop(name, None)
            if value is None:
                return None
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        return path, params


# ---------------------------------------------------------------------- shared cells

_PATH_NAME = re.compile(r"{(\w+)}")
_WHOLE_TIME = 19  # characters of a time in UTC or of this machine


def currency_of(record: Record, names: AccountNames | None = None) -> str | None:
    """Return a record's own currency, or the currency of its account or of all its prices; None if none is
    known.
    """
    own = record.get("currency")
    if isinstance(own, str):
        return own
    currencies = [item.get("currency") for item in records_of(record.get("items")) if "unit_amount" in item]
    if currencies and isinstance(currencies[0], str) and currencies.count(currencies[0]) == len(currencies):
        return currencies[0].upper()
    return names.currency(record.get("account")) if names is not None else None


def joined(cells: Iterable[Cell]) -> list[Cell]:
    """Return cells side by side with neighbours of one tone as one, because each is drawn separately."""
    found: list[Cell] = []
    for cell in cells:
        if found and found[-1].tone == cell.tone:
            found[-1] = Cell(found[-1].text + cell.text, cell.tone)
        else:
            found.append(cell)
    return found


def records_of(value: object) -> list[Record]:
    """Return the records of a list in an answer; none where it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text_of(record: Record, name: str, tone: Tone = "plain") -> Cell:
    """Return a field as text; an absent or null one is a dim dash."""
    value: Any = record.get(name)
    return Cell("–", "dim") if value is None else Cell(literal(value), tone)


def money_of(record: Record, name: str, names: AccountNames | None = None, *, sign: bool = False) -> Cell:
    """Return an amount in the record's currency; with `sign` a positive one shows a plus."""
    amount = record.get(name)
    if not isinstance(amount, int):
        return text_of(record, name)
    text = format_amount(amount, currency_of(record, names), sign=sign)
    return Cell(text, "minus" if amount < 0 else "plus" if sign and amount else "plain")


def time_of(record: Record, name: str) -> Cell:
    """Return an ISO 8601 UTC time in the chosen style: `2026-11-20 04:31:00`."""
    value = record.get(name)
    text = times.written(value) if isinstance(value, str) else None
    return Cell(text, "dim") if text is not None else text_of(record, name, "dim")


def part_of_time(record: Record, name: str, start: int, stop: int | None = None) -> str:
    """Return a part of `2026-11-20 04:31:00`; the whole text where a time is written as how long ago."""
    text = time_of(record, name).text
    return text[start:stop] if len(text) == _WHOLE_TIME else text


def facts_of(record: Record, *names: str) -> list[Fact]:
    """Return a line for each of these fields: text, a time, the `mode`, or an id; its label is the name."""
    return [Fact(name.removesuffix("_at"), _fact(record, name)) for name in names]


def _fact(record: Record, name: str) -> Cell:
    if name == "mode":
        return mode_of(record)
    if name == "created" or name.endswith("_at"):
        return time_of(record, name)
    return text_of(record, name, "dim" if name in ("id", "event", "endpoint", "request") else "plain")


def clock_of(record: Record, name: str) -> Cell:
    """Return a time as `11-20 04:31:00`, for logs, which only cover recent days."""
    return Cell(part_of_time(record, name, 5), "dim")


def status_of(record: Record, looks: Mapping[str, tuple[str, Tone]]) -> Cell:
    """Return a status with its glyph, so that it can be read without the colour."""
    status = str(record.get("status"))
    glyph, tone = looks.get(status, ("·", "plain"))
    return Cell(f"{glyph} {literal(status)}", tone) if "status" in record else Cell("–", "dim")


def mode_of(record: Record) -> Cell:
    """Return the mode; LIVE is a word, so that it can be read without the colour."""
    livemode = record.get("livemode")
    if not isinstance(livemode, bool):
        return Cell("–", "dim")
    return Cell("LIVE", "warn") if livemode else Cell("test", "dim")


_IN_PATH = re.compile(r"/((acc|txn|inv|usr|ord|evt|whe)_[0-9a-z]+)(?=/|$)")
KIND_OF_OBJECT = {
    "account": "accounts",
    "transaction": "transactions",
    "invoice": "invoices",
    "user": "users",
    "order": "orders",
}
_OF_PREFIX = {
    **dict(zip(("acc", "txn", "inv", "usr", "ord"), KIND_OF_OBJECT.items(), strict=True)),
    "evt": ("event", "events"),
    "whe": ("webhook endpoint", "webhook_endpoints"),
}


def to_events(record: Record) -> tuple[Link, ...]:
    """Return the links to the newest event about an object and to the request that caused it."""
    newest = (("object", str(record.get("id"))), ("limit", "1"))
    request = Via("/v1/events", named="request", query=newest)
    return (
        Link("Its newest event", "events", via=Via("/v1/events", query=newest)),
        Link("The request that changed it last", "requests", via=request),
    )


def to_other_side(record: Record) -> tuple[Link, ...]:
    """Return the links from a transaction to the other side of its transfer and to its reversal."""
    transaction = str(record.get("id"))
    path = f"/v1/transactions/{quote(transaction, safe='')}/related"
    links = []
    if isinstance(transfer := record.get("transfer"), str):
        links.append(Link("Its other side", "transactions", via=Via(path, "transfer", transfer)))
    if record.get("reverses") is None:
        links.append(Link("Its reversal", "transactions", via=Via(path, "reverses", transaction)))
    return tuple(links)


def to_delivery(delivery: Record, url: str) -> Link:
    """Return the link from an event to one of its deliveries, in the list of its endpoint."""
    event = quote(str(delivery.get("event")), safe="")
    via = Via(f"/v1/events/{event}/deliveries", "endpoint", str(delivery.get("endpoint")))
    return Link(f"Its delivery to {literal(url)}", "deliveries", via=via)


def to_objects_in(path: str) -> tuple[Link, ...]:
    """Return the links to the objects whose ids are in the path of a request."""
    ids = dict.fromkeys(_IN_PATH.findall(path))
    return tuple(
        Link(f"The {_OF_PREFIX[prefix][0]} in its path", _OF_PREFIX[prefix][1], record_id=record_id)
        for record_id, prefix in ids
    )


def offers(
    resource: Resource,
    action: str,
    name: str,
    record: Record | None,
    names: AccountNames,
    read_only: bool,
) -> bool | None:
    """Return True if an action is possible now, None to grey its key, False if the screen lacks the key.

    `name` identifies it, for the actions `act` and `go`.
    """
    match action:
        case "act":
            act = resource.action(name)
            if act is None:
                return False
            return True if record and not read_only and act.allowed(record) else None
        case "go":
            return resource.related_view(name) is not None
        case "create" | "transfer":
            form = resource.form if action == "create" else resource.transfer
            return False if form is None else None if read_only else True
        case "edit":
            if not resource.edits:
                return False
            return True if record and not read_only and resource.edit(record, names) else None
        case "follow":
            return not resource.still
        case _:
            return True


def why_not(
    resource: Resource,
    name: str,
    record: Record | None,
    *,
    has_marks: bool,
    key_of: Callable[[ResourceAction], str] = lambda action: action.key,
) -> str:
    """Return why a key that `offers` greys does nothing; `name` identifies the action, "" to edit.

    `key_of` returns the key of another action.
    """
    action = resource.action(name)
    verb = action.label if action is not None else "edit"
    if has_marks and action is not None:
        return f"No marked row allows this: {verb}."
    if record is None:
        return f"There is no {resource.singular} here to {verb}."
    if isinstance(status := record.get("status"), str):
        first = resource.action(action.after) if action is not None else None
        if first is not None and first.allowed(record):
            state = "a draft" if status == "draft" else literal(status)
            return f"Still {state}: {key_of(first)} {first.label}s it first."
        called = record.get("number") or record.get("id")
        return f"{literal(called)} is {literal(status)}."
    return action.why_not if action is not None else f"This {resource.singular} cannot be changed."
