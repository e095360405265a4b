"""The classes with which a resource file declares a screen.

One generic view draws all screens that are declared in this way.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from ledger_client.errors import LedgerError
from ledger_tui.client.api import Api
from ledger_tui.client.lists import Paging, paging_of
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.text import literal, with_article

Tone = Literal["plain", "dim", "strong", "plus", "minus", "warn", "bad", "accent"]
Filters = Mapping[str, str]
_PATH_NAME = re.compile(r"{(\w+)}")


class Cell(NamedTuple):
    """A piece of text, already safe to draw, and its tone."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Column:
    """A column of a list. When space is short, the column with the highest `rank` is hidden first.

    `width` is in terminal cells; columns share the remaining width in proportion to `grow`. `easy` is a
    comfortable width: before the list makes the column narrower than that, it hides columns of higher ranks.
    """

    title: str
    width: int
    cell: Callable[[Record, AccountNames], Cell]
    align: Literal["left", "right"] = "left"
    grow: int = 0
    rank: int = 0
    most: int = 0  # the maximum width of a column with `grow`; 0 for no maximum
    easy: int = 0
    short: int = 0  # when space is short, the column shows this many cells from the end of its text
    by: str = ""  # the field to sort the rows by; "" to sort them by the shown text

    @property
    def name(self) -> str:
        """Return the column's name in the config file."""
        return self.title.removesuffix(" (UTC)")

    @property
    def largest_first(self) -> bool:
        """Whether sorting begins with the largest number or the newest time, not with the first name."""
        return bool(self.by) or self.align == "right"


class Via(NamedTuple):
    """How to find the object of a link: read the list at `path` when the user follows the link.

    The dashboard chooses the first record whose field `where` equals `equals`. If `where` is empty, it
    chooses the first record of the list. The link leads to the chosen record. But if `named` is set, the link
    leads to the object whose id is in the field `named` of this record. `query` holds the query parameters of
    the list.
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
    """A part of a detail: facts in aligned lines, below a drawing if there is one.

    A drawing is a function that takes a width and returns lines of cells. A drawing must define `__eq__`,
    because the pane redraws only if the new drawing is not equal to the drawing on the screen.
    """

    title: str
    facts: tuple[Fact, ...] = ()
    drawing: Drawing | None = None


@dataclass(frozen=True)
class Detail:
    """A full view of a record: a headline, facts in sections, links."""

    headline: Cell
    sections: tuple[Section, ...]
    links: tuple[Link, ...] = ()


class FilterContext(NamedTuple):
    """The known names, and the date of the shown moment, for filters that the dashboard applies."""

    names: AccountNames
    today: date


@dataclass(frozen=True)
class Filter:
    """A filter of a list, typed as `name:value`. The server applies it, as the query parameter `param`.

    `check` returns a sentence that says why a value is wrong; None for a valid value. A filter with `account`
    accepts the name of an account instead of its id; a filter with `user` accepts the name of a user.

    If `matches` is set, the dashboard, not the server, applies the filter to the loaded rows: `matches` takes
    a record and the value. But a value for which `is_sent` returns True is still sent to the server. If the
    user types no value, the filter has the value `default`. `words` maps other words on the screen to the
    values that they stand for, such as `delivered` to `succeeded`.
    """

    name: str
    param: str
    example: str
    check: Callable[[str], str | None] = lambda _value: None
    account: bool = False
    user: bool = False
    suggests: Callable[[], Sequence[str]] = tuple  # returns values to offer while the user types
    matches: Callable[[Record, str, FilterContext], bool] | None = None
    is_sent: Callable[[str], bool] = lambda _value: False
    default: str = ""
    words: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def is_yes_no(self) -> bool:
        """Whether the only values are yes and no. For yes, the user can type the filter's name alone."""
        return set(self.suggests()) == {"yes", "no"}


FieldKind = Literal[
    "text", "currency", "account", "user", "amount", "lines", "choice", "date", "metadata", "items", "words"
]


@dataclass(frozen=True)
class Field:
    """One field of a form. Requests contain the field as `name`; the server's errors name it in `param`."""

    name: str
    label: str
    kind: FieldKind = "text"
    required: bool = True
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()  # (value in the request, text on the screen)


@dataclass(frozen=True)
class Form:
    """A form to create or edit an object. A form with PATCH sends only the changed fields."""

    title: str
    done: str  # the new state in words, such as "exists", for an object without a status
    fields: tuple[Field, ...]
    path: str = ""  # the path of the request, if it is not the path of the list
    prefill: Callable[[Record | None, Filters], Mapping[str, str]] = lambda _record, _filters: {}
    method: Literal["POST", "PATCH"] = "POST"
    shows_once: str | None = None  # the answer's field with a secret that is shown only once
    either: tuple[str, ...] = ()  # the user fills in exactly one of these fields
    # Whether the user must confirm before the form is sent, even in test mode. Outside test mode, or if the
    # form overdraws an account, the user confirms by typing the amount.
    moves_money: bool = False
    sends: tuple[tuple[str, str], ...] = ()  # fixed names and values that are sent with the fields
    way_back: ResourceAction | None = None  # the action that undoes the creation, if there is one


@dataclass(frozen=True)
class ResourceAction:
    """An action on an object. `allowed` tests the object's state; `Resource.action_path` returns the path."""

    name: str
    label: str
    done: str  # the result in a word, such as "Paid", if the object's new status does not show it
    allowed: Callable[[Record], bool] = lambda _record: True
    method: Literal["POST", "DELETE"] = "POST"
    verb: str = ""  # the last part of the path, if it is not the action's name
    after: str = ""  # the name of the action that must come before this action, if there is one
    final: bool = (
        False  # has lasting effects: the user must confirm, outside test mode by typing a number or a name
    )
    moves_money: bool = False  # credits or debits an account
    asks: str = ""  # the beginning of the question, if the label is not suitable
    # The consequence, in sentences that the question shows. A greyed key shows only the first sentence.
    effect: str = ""
    # Returns, in sentences, why the user must confirm even in test mode; "" if the object's state gives no
    # reason for this.
    caution: Callable[[Record], str] = lambda _record: ""
    # The action that undoes this action, if there is one; it can be this action itself.
    way_back: ResourceAction | None = field(default=None, compare=False, repr=False)
    creates: bool = False  # creates an object, so the request carries an idempotency key
    target: Callable[[Record], str] | None = None  # returns the path, if it is not `path/{id}/{verb}`
    shows_once: str | None = None  # the answer's field with a secret that is shown only once
    # The part of the interface beyond the contract (see `Resource`) that offers this action, if any.
    part: str | None = None
    # The reason to show if the object does not allow the action and its status does not explain why.
    why_not: str = ""
    # Returns the sentence shown after the action. It takes the answer and the words for the object.
    result: Callable[[Record, str], str] | None = None

    def effect_sentence(self, key: str, singular: str) -> str:
        """Return the effect of the action's key in a sentence.

        The sentence is like `F finalizes a draft: it gets its number and can be paid.` `singular` is the word
        for an object of this kind.
        """
        state = self.allowed.states[0] if isinstance(self.allowed, InState) else None
        words = state if state == "draft" else f"{state or ''} {singular}".lstrip()
        verb, _, rest = (self.asks.lower() or self.label).partition(" ")
        text = self.effect.partition(". ")[0].rstrip(".")
        effect = f": {text[0].lower()}{text[1:]}" if text else ""
        return f"{key} {' '.join(filter(None, (f'{verb}s', rest, with_article(words))))}{effect}."


@dataclass(frozen=True)
class InState:
    """Tests whether an object's status is one of `states`; None stands for an object without a status."""

    states: tuple[str | None, ...]

    def __call__(self, record: Record) -> bool:
        return record.get("status") in self.states


def in_state(*states: str | None) -> InState:
    """Return a function that tests whether an object's status is one of `states`."""
    return InState(states)


class RelatedView(NamedTuple):
    """A view that a key leads to; `link` returns the link for the selected object and the filters."""

    name: str
    label: str
    link: Callable[[Record | None, Filters], Link | None]


class More(NamedTuple):
    """Figures of a detail that the record does not contain, read when the cursor rests on the object.

    `load` reads the figures; `sections` and `links` take its result. If `load` raises a LedgerError, the
    detail shows the error's message under `title`; if `title` is "", it shows no message.
    """

    load: Callable[[Api, Record], Awaitable[Any]]
    sections: Callable[[Record, Any, AccountNames], tuple[Section, ...]]
    title: str = ""
    links: Callable[[Record, Any], tuple[Link, ...]] = lambda _record, _more: ()

    def parts_for(
        self, record: Record, result: Any, names: AccountNames
    ) -> tuple[tuple[Section, ...], tuple[Link, ...]]:
        """Return the sections and links for the result of `load`, or for the LedgerError that it raised."""
        if not isinstance(result, LedgerError):
            return self.sections(record, result, names), self.links(record, result)
        facts = (Fact("", Cell(literal(result), "minus")),)
        return (Section(self.title, facts),) if self.title else (), ()


@dataclass(frozen=True)
class Place:
    """A screen of the dashboard. `kind` is its name in links, and `key` is the key that opens it.

    If `key` is "", the screen has no key, and only other screens lead to it.
    """

    kind: str
    title: str
    key: str = ""
    short: str = ""


@dataclass(frozen=True, kw_only=True)
class Resource(Place):
    """A kind of object: the path of its list, the columns and the detail to show, the actions on an object.

    If `path` contains a filter's name in braces, the value of this filter replaces it. The parts beyond the
    contract (`part`, `object_part`) are parts of the interface that a server may lack.
    """

    singular: str
    path: str
    id_prefix: str = ""
    columns: tuple[Column, ...]
    detail: Callable[[Record, AccountNames], Detail]
    filters: tuple[Filter, ...] = ()
    form: Form | None = None
    # Returns the form to edit an object; None if the object's state does not allow it.
    edit: Callable[[Record, AccountNames], Form | None] = lambda _record, _names: None
    form_inside: Form | None = None  # replaces `form` while an object is open: the form to post to it
    transfer: Form | None = None  # the form that moves money from one account to another
    edits: str = ""  # what the user can edit, such as `a draft`; "" if objects of this kind cannot be edited
    actions: tuple[ResourceAction, ...] = ()
    related: tuple[RelatedView, ...] = ()
    more: More | None = None
    under: str | None = None  # the kind of the parent screen, if this screen has no key
    # Whether records change after their creation. If they do, polls read the shown rows again.
    changes: bool = False
    has_object_path: bool = True  # whether the server returns one object at `path/{id}`
    object_part: str | None = None  # the part beyond the contract that offers one object, if any
    part: str | None = None  # the part beyond the contract that offers the list, if any
    missing_text: str = ""  # the sentence shown if the server lacks the list
    empty: str = "Nothing here yet."
    invites: str = ""  # the sentence after `empty`, if the user is allowed to create an object
    # Returns the ids of the accounts in a record, to read their names.
    account_ids: Callable[[Record], tuple[object, ...]] = field(default=lambda _record: ())
    names_users: bool = False  # whether the rows contain ids of users
    # Returns the server's counts of the whole list in words. It takes the summary and the parts that the
    # server lacks.
    counts_in_words: Callable[[Record, Collection[str]], str] = lambda _summary, _missing: ""

    @property
    def paging(self) -> Paging:
        """Return the way in which the server pages the list."""
        return paging_of(self.path)

    @property
    def still(self) -> bool:
        """Return whether the list cannot grow: no new rows arrive on top."""
        return self.paging == "statement"

    def action(self, name: str) -> ResourceAction | None:
        """Return the action of this name; None if this kind has no such action."""
        return next((action for action in self.actions if action.name == name), None)

    def related_view(self, name: str) -> RelatedView | None:
        """Return the related view of this name; None if no key leads from this kind to such a view."""
        return next((view for view in self.related if view.name == name), None)

    def object_path(self, record_id: object) -> str:
        """Return the path to read or change one object."""
        return f"{self.path}/{quote(str(record_id), safe='')}"

    def action_path(self, action: ResourceAction, record: Record) -> str:
        """Return the path for the request of an action."""
        if action.target is not None:
            return action.target(record)
        verb = "" if action.method == "DELETE" else f"/{action.verb or action.name}"
        return self.object_path(record.get("id")) + verb

    def list_path(self, filters: Filters) -> tuple[str, dict[str, str]] | None:
        """Return the list's path and query; None while a filter that the path needs is missing."""
        here = {
            each.param
            for each in self.filters
            if each.matches is not None and not each.is_sent(filters.get(each.param, ""))
        }
        params = {name: value for name, value in filters.items() if name not in here}
        path = self.path
        for name in _PATH_NAME.findall(path):
            value = params.pop(name, None)
            if value is None:
                return None
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        return path, params
