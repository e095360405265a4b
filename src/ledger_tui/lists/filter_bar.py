"""The line into which the user types a filter, an id or a text, with completions and a hint."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.input import Selection

from ledger_client.errors import LedgerError
from ledger_tui.client.lists import learn_accounts_until, learn_users_until
from ledger_tui.client.names import AccountName, AccountNames, UserName
from ledger_tui.formats.text import fit, literal
from ledger_tui.lists.arranging import contains_besides
from ledger_tui.lists.record_list import RecordList
from ledger_tui.resources.base import Filter, FilterContext
from ledger_tui.resources.filtering import (
    BadLine,
    LineParts,
    UnknownName,
    check_date,
    extended,
    filter_line,
    is_filter_line,
    meaning_of,
    parse_filters,
    parts_of,
    usage,
)
from ledger_tui.ui.dialogs import Offers
from ledger_tui.ui.handlers import asks, while_running

MOST_OFFERED = 8
_NAMES_OFFERED = 6
# If a word has at least this many characters, the bar offers the matching values and names, even if the user
# has typed no filter's name before the word.
_LETTERS_OF_A_VALUE = 2


class FilterOffer(NamedTuple):
    """A line that the bar offers as a completion. The user sees the texts `shown` and `beside`.

    If the offer is `complete`, enter applies the line; otherwise enter only puts the line into the input.
    """

    line: str
    shown: str
    beside: str = ""
    complete: bool = False


def offers_for(
    line: str,
    filters: Sequence[Filter],
    names: AccountNames,
    bookmarks: Sequence[str] = (),
    earlier: Sequence[str] = (),
) -> list[FilterOffer]:
    """Return the completions of the line.

    For an empty line, the bookmarks come first, then `earlier`, the lines that the user has applied before.
    """
    if not line.strip():
        bookmark_offers = [FilterOffer(each, each, "★ bookmark", True) for each in bookmarks]
        used = [FilterOffer(each, each, "used before", True) for each in earlier if each not in bookmarks]
        return [*bookmark_offers, *used, *_filter_name_offers("", "", filters)][:MOST_OFFERED]
    beginning = begun_name(line, filters)
    starts = _word_starts(line)
    if beginning is not None:
        name_offers = _name_offers(beginning, names)
        if name_offers or beginning.before == line[: starts[-1]]:
            return name_offers
    before, word = line[: starts[-1]], line[starts[-1] :]
    name, colon, value = word.partition(":")
    if colon:
        match = next((each for each in filters if each.name == name), None)
        return _value_offers(f"{before}{name}:", value.replace('"', ""), match) if match else []
    matches = [*_filter_name_offers(before, word, filters), *_filter_value_offers(before, word, filters)]
    return [*matches, *_object_name_offers(line, starts, filters, names)][:MOST_OFFERED]


def without_last_word(line: str) -> str:
    """Return the line without its last word. A quoted text counts as one word."""
    line = line.rstrip()
    return line[: _word_starts(line)[-1]]


class BegunName(NamedTuple):
    """The name of an account or user, or the beginning of a name, at the end of a typed line.

    `filter` is the filter that the name belongs to, and `before` is the line before this filter.
    """

    before: str
    filter: Filter
    text: str


def begun_name(line: str, filters: Sequence[Filter]) -> BegunName | None:
    """Return the name that follows a filter such as `account:` or `user:` at the end of the line, or None.

    The name can contain spaces, even without quotes.
    """
    starts = _word_starts(line)
    number = len(starts) - 1
    while number and ":" not in line[starts[number] :]:
        number -= 1
    name, colon, text = line[starts[number] :].partition(":")
    filter_ = next((each for each in filters if each.name == name and (each.account or each.user)), None)
    if not colon or filter_ is None or (number < len(starts) - 1 and _ends_early(text)):
        return None
    return BegunName(line[: starts[number]], filter_, text.replace('"', "").strip())


def _ends_early(text: str) -> bool:
    """Return whether the value of a filter ends before the last word of the line.

    `text` is the part of the line after the filter's colon. A quoted value ends at its quote, and a space at
    the end of the line ends any value.
    """
    return text.startswith('"') or text.endswith(" ")


def _word_starts(line: str) -> list[int]:
    """Return the position at which each word begins. A space in quotes does not end a word."""
    starts, in_quotes = [0], False
    for number, character in enumerate(line):
        if character == '"':
            in_quotes = not in_quotes
        elif character == " " and not in_quotes:
            starts.append(number + 1)
    return starts


def _filter_name_offers(before: str, beginning: str, filters: Sequence[Filter]) -> list[FilterOffer]:
    return [
        FilterOffer(f"{before}{each.name}:yes ", f"{each.name}:yes", f"or {each.name}:no", True)
        if each.is_yes_no
        else FilterOffer(f"{before}{each.name}:", f"{each.name}:", f"such as {each.example}")
        for each in filters
        if each.name.startswith(beginning) and f"{each.name}:" not in before
    ]


def _filter_value_offers(before: str, beginning: str, filters: Sequence[Filter]) -> list[FilterOffer]:
    """Return an offer for each value that a filter suggests and that starts with `beginning`."""
    return [
        FilterOffer(f"{before}{each.name}:{value} ", f"{each.name}:{value}")
        for each in filters
        if len(beginning) >= _LETTERS_OF_A_VALUE and f"{each.name}:" not in before
        for value in each.suggests()
        if value.casefold().startswith(beginning.casefold())
    ]


def _object_name_offers(
    line: str, starts: Sequence[int], filters: Sequence[Filter], names: AccountNames
) -> list[FilterOffer]:
    """Return an offer for each account or user whose name contains the words after the line's last filter."""
    number = len(starts) - 1
    while number and ":" not in line[starts[number - 1] : starts[number]]:
        number -= 1
    before, text = line[: starts[number]], line[starts[number] :].strip()
    offers: list[FilterOffer] = []
    for each in filters:
        if not (each.account or each.user) or len(text) < _LETTERS_OF_A_VALUE or f"{each.name}:" in before:
            continue
        for offer in _name_offers(BegunName(before, each, text), names):
            # Leave out an account or user that has the text only in its id.
            if text.casefold() in f"{offer.shown} {offer.beside}".casefold():
                offers.append(offer._replace(shown=f"{each.name}:{offer.shown}"))
    return offers


def _name_offers(beginning: BegunName, names: AccountNames) -> list[FilterOffer]:
    before = f"{beginning.before}{beginning.filter.name}:"
    directory = names if beginning.filter.account else names.users
    matches: Sequence[AccountName | UserName] = directory.search(beginning.text, _NAMES_OFFERED)
    return [_name_offer(before, each, directory.with_name(each.name)) for each in matches]


def _value_offers(before: str, value: str, filter_: Filter) -> list[FilterOffer]:
    beginning = value.casefold()
    fitting = [each for each in filter_.suggests() if each.casefold().startswith(beginning) and each != value]
    return [FilterOffer(f"{before}{each} ", each) for each in fitting[:MOST_OFFERED]]


def _name_offer(before: str, entry: AccountName | UserName, same: Sequence[object]) -> FilterOffer:
    """Return an offer that inserts the name of an account or user, or the id if the name is not unique.

    `same` holds all known objects with this name.
    """
    beside = entry.currency if isinstance(entry, AccountName) else entry.email
    text = entry.name if len(same) == 1 and '"' not in entry.name else entry.id
    return FilterOffer(f'{before}"{text}" ' if " " in text else f"{before}{text} ", entry.name, beside)


_PAUSE_SECONDS = 0.1  # the bar searches the rows after the user has typed nothing for this time
_OFFER_WIDTH = 48


class FilterBar(Vertical):
    """The filter line. It is hidden until `open` is called.

    It posts `Applied` with the query parameters of a typed filter and the text to find, `OpenId` with a typed
    id, or `Closed`. While the user types a text, the list shows only the loaded rows that contain the text.
    The bar does not hide itself: it stays open, with the typed text, until the view hides it.
    """

    BINDINGS = [
        Binding("enter", "apply", "apply", show=True, priority=True, id="filter.apply"),
        Binding("escape", "close", "close", show=True, key_display="esc", id="filter.close"),
        Binding("ctrl+c", "close", show=False),
        Binding("down", "pick(1)", "next", show=False, priority=True),
        Binding("up", "pick(-1)", "previous", show=False, priority=True),
        Binding("tab", "take", "complete", show=True, priority=True, id="filter.complete"),
        Binding("ctrl+w", "drop_word", "remove the last", show=True, priority=True, id="filter.drop"),
        Binding("ctrl+b", "bookmark", "bookmark", show=True, priority=True, id="filter.bookmark"),
    ]

    @dataclass
    class Applied(Message):
        params: dict[str, str]
        text: str

    @dataclass
    class OpenId(Message):
        record_id: str

    class Closed(Message):
        pass

    def __init__(self, record_list: RecordList) -> None:
        super().__init__()
        self._list = record_list
        self._model = record_list.model
        self._filters = self._model.resource.filters
        self._id_prefix = self._model.resource.id_prefix
        self._parts: LineParts | None = None  # the parts of a line with filters and a text; of others None
        # the line whose filters to apply as soon as the bar has read the accounts or users that they name
        self._looking_up = ""
        self._present_filter = ""  # the filter of the list when the user opened the line, and a space
        self._text_before = ""  # the text that narrowed the list when the user opened the line
        self._offers: list[FilterOffer] = []
        self._pause: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Input(compact=True, select_on_focus=False)
        yield Offers()
        yield Static(id="filter-hint")

    def on_mount(self) -> None:
        self._pause = self.set_interval(_PAUSE_SECONDS, self._search_after_pause, pause=True)

    @property
    def line(self) -> str:
        """The line with all its filters; an added filter replaces a present filter of the same name."""
        return self._with_present(self._added)

    def open(self) -> None:
        """Show the line with the current filter, and with the text that narrows the list.

        The cursor is behind the filter, so that the user adds to it. The text is selected: a typed letter
        replaces the text, and an arrow key keeps it.
        """
        self.display = True
        self._text_before = self._model.text
        line = self.query_one(Input)
        there = filter_line(self._model.filters, self._filters)
        self._present_filter = f"{there} " if there else ""
        line.value = self._present_filter + self._text_before
        self.screen.set_focus(line)
        line.selection = Selection(len(self._present_filter), len(line.value))
        self._offer()
        self.show()

    def show(self, sentence: str = "", *, problem: bool = False) -> None:
        """Show a sentence below the line; if the sentence is "", show how to write filters."""
        text = f"✕ {sentence}" if problem else sentence or self._usage()
        style = "bold $error" if problem else "$muted"
        self.query_one("#filter-hint", Static).update(Content.styled(text, style))

    def _usage(self) -> str:
        own = usage(self._filters)
        if own:
            return f"{own}  or {self._id_prefix}… or any text" if self._id_prefix else own
        if self._id_prefix:
            return "This list has no filters; type an id to open it or part of a name to find it"
        return "This list has no filters; type part of a row to find it"

    # ------------------------------------------------------------------ while the user types

    @on(Input.Changed)
    def typed(self, event: Input.Changed) -> None:
        event.stop()
        self.show()
        self._offer()
        if self._pause is not None and self.display:
            self._pause.reset()
            self._pause.resume()

    @while_running
    def _search_after_pause(self) -> None:
        assert self._pause is not None  # only this timer calls this method
        self._pause.pause()
        if self.display:
            self._narrow()
            self._look_for_names()

    @property
    def _added(self) -> str:
        """What the user has typed behind the present filter; the whole line if it no longer begins so."""
        return self.query_one(Input).value.removeprefix(self._present_filter).strip()

    def _with_present(self, line: str) -> str:
        """Return the filter line that holds the present filter and these filters."""
        is_added = self.query_one(Input).value.startswith(self._present_filter)
        return extended(self._present_filter, line) if is_added else line

    @property
    def _is_id(self) -> bool:
        line = self._added
        return bool(self._id_prefix) and line.startswith(self._id_prefix) and " " not in line

    @property
    def _is_text(self) -> bool:
        """Whether the user has typed a text to find, not a filter or an id."""
        return bool(self._added) and not self._is_id and not is_filter_line(self._added, self._filters)

    def _narrow(self) -> None:
        """Show only the loaded rows that contain the typed text, and show their number below the line."""
        text = self._added if self._is_text else ""
        self._list.narrow(text)
        window, phrase = self._model.window, f"“{literal(text)}”"
        self._parts = None if text and len(window) else self._parts_of_line()
        if self._parts is not None:
            self._show_parts(self._parts)
            return
        filter_text = self._as_filter(text)
        is_filter = bool(filter_text) and not self._is_also_text(text)
        # A text that no row contains may be the beginning of a filter's name. In this case show all rows.
        if text and self._offers and not len(window):
            self._list.narrow(text := "")
        count = f"{len(window):,} of {window.resident:,} loaded rows match {phrase}; " if text else ""
        if is_filter:
            self.show(f"{count}enter filters the list: {literal(self._with_present(filter_text))}")
        elif text and len(window):
            more = "enter keeps them" + (", m then searches older rows" if window.has_older else "")
            also = f". As a filter: {literal(filter_text)}" if filter_text else ""
            self.show(f"{count}{more}{also}")
        elif text and window.has_older:
            self.show(f"No loaded row matches {phrase}; enter searches older rows.")
        elif text:
            usage_text = f" Filters: {usage(self._filters)}" if self._filters else ""
            self.show(f"No loaded row matches {phrase}.{usage_text}", problem=True)
        elif self.line != self.query_one(Input).value.strip():
            self.show(f"enter filters the list: {literal(self.line)}")

    def _parts_of_line(self) -> LineParts | None:
        """Return the parts of a line with filters and a text, or with several filters; otherwise None."""
        line = self._added
        is_whole = meaning_of(line, self._filters) is not None or check_date(line) is None
        if self._is_id or is_whole or " " not in line or line.count('"') % 2:
            return None
        parts = parts_of(line, self._filters)
        return parts if parts.filters else None

    def _show_parts(self, parts: LineParts) -> None:
        """Show the loaded rows that contain the text, and below the line what enter will do."""
        self._list.narrow(parts.text)
        if self._offers and not len(self._model.window):
            self._list.narrow("")  # the text may be the beginning of a filter
        with suppress(BadLine):
            parse_filters(parts.filters, self._filters, self._model.context.names)
            filters = literal(self._with_present(parts.filters))
            text = f", and finds “{literal(parts.text)}”" if parts.text else ""
            self.show(f"enter filters the list: {filters}{text}")

    # ------------------------------------------------------------------ completions

    def _offer(self) -> None:
        bookmarks = self._model.settings.filters
        line = self.query_one(Input).value
        context = self._model.context
        earlier = context.saved.used_filters(self._model.resource.kind)
        self._offers = offers_for(line, self._filters, context.names, bookmarks, earlier)
        self.query_one(Offers).offer(
            Content.assemble(fit(literal(each.shown), _OFFER_WIDTH), "  ", (literal(each.beside), "$muted"))
            for each in self._offers
        )

    def action_pick(self, step: int) -> None:
        self.query_one(Offers).step(step)

    def action_drop_word(self) -> None:
        """Remove the last filter of the line and its whole value."""
        line = self.query_one(Input)
        line.value = without_last_word(line.value)
        line.cursor_position = len(line.value)

    def action_take(self) -> None:
        """Complete the line with the highlighted offer, or with the first offer if none is highlighted."""
        if self._offers:
            self._take(self.query_one(Offers).highlighted or 0)

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take(event.option_index)

    def _take(self, number: int) -> FilterOffer:
        offer = self._offers[number]
        line = self.query_one(Input)
        line.value = offer.line
        line.cursor_position = len(offer.line)
        self._offer()
        return offer

    def _look_for_names(self) -> None:
        """Read accounts or users from the server if no known name contains the typed name."""
        beginning = begun_name(self.query_one(Input).value, self._filters)
        if beginning is not None and len(beginning.text) > 1 and not self._offers:
            self._read_names(beginning.text, user=beginning.filter.user)

    @asks("accounts")
    async def _read_names(self, name: str, *, user: bool) -> None:
        context = self._model.context
        with suppress(LedgerError):
            await (learn_users_until if user else learn_accounts_until)(context.api, context.names, name)
        self.call_later(self.names_read)

    def action_bookmark(self) -> None:
        """Store the typed filter as a bookmark; if it is a bookmark already, remove the bookmark."""
        line = self.line
        if not line or self._is_text or not is_filter_line(line, self._filters):
            self.show("Only a filter can be a bookmark.", problem=True)
            return
        try:
            parse_filters(line, self._filters, self._model.context.names)
        except BadLine as error:
            self.show(literal(error), problem=True)
            return
        saved_lists, kind = self._model.context.saved, self._model.resource.kind
        settings = saved_lists.of(kind).with_filter(line)
        saved_lists.use(kind, settings)
        problem = saved_lists.save(kind)
        notice = "★ Bookmark added" if line in settings.filters else "Bookmark removed"
        self.show(problem or f"{notice}; an empty line offers the bookmarks.", problem=bool(problem))

    # ------------------------------------------------------------------ enter and esc

    def action_apply(self) -> None:
        """Apply the highlighted offer or the typed line.

        If the highlighted offer is not complete, such as `status:`, only put the offer into the line.
        """
        highlighted = self.query_one(Offers).highlighted
        if highlighted is not None and self._offers and not self._take(highlighted).complete:
            return
        line = self._added
        self._parts = self._parts_of_line()
        if self._is_text:
            self._narrow()
            if not self._is_also_text(line):
                line = self._as_filter(line) or line
        if self._is_id:
            self.show("Opening…")
            self.post_message(self.OpenId(line))
        elif self._parts is not None:
            self._filter(self._with_present(self._parts.filters))
        elif is_filter_line(line, self._filters):
            self._filter(self._with_present(line))
        else:
            self._find()

    def _as_filter(self, word: str) -> str:
        """Return the filter that a word on the screen means, such as `status:4xx` for `4xx`; otherwise ""."""
        meaning = meaning_of(word, self._filters)
        return meaning.line if meaning is not None else ""

    def _is_also_text(self, word: str) -> bool:
        """Return whether a word that means a filter is also in a shown row: `open` in `Open Air GmbH`."""
        meaning, model = meaning_of(word, self._filters), self._model
        if meaning is None:
            return False
        context = FilterContext(model.context.names, model.context.session.today)
        contains = contains_besides(model.resource, word, meaning, context)
        return any(contains(record) for _row, record in model.window.at_hand())

    def _find(self) -> None:
        """Close the line, and keep only the loaded rows that contain the text.

        If there are no such rows, search older pages; without older pages, the line stays open.
        """
        self._offers = []
        self._narrow()
        window = self._model.window
        if len(window) or window.has_older:
            self._model.hold()
            self._list.table.go_to(0)
            # `go_to(0)` made the list follow new rows, but the matching row must stay in view.
            self._model.hold()
            self.post_message(self.Closed())
            if not len(window):
                self._list.search()

    @while_running
    def names_read(self) -> None:
        """Apply the line if the user pressed enter before the names arrived; otherwise offer the names."""
        # The user may have changed the line after pressing enter.
        if self.display and self._looking_up and self.line == self._looking_up:
            line = self._parts.filters if self._parts is not None else self._added
            self._filter(self._with_present(line), looked_up=True)
        elif self.display:
            self._offer()

    def _filter(self, line: str, *, looked_up: bool = False) -> None:
        try:
            params = parse_filters(line, self._filters, self._model.context.names)
        except UnknownName as error:
            if looked_up:
                self.show(literal(error), problem=True)
            else:
                self._looking_up = self.line
                self.show(f"Looking up the {'user' if error.user else 'account'}…")
                self._read_names(error.name, user=error.user)
        except BadLine as error:
            self.show(literal(error), problem=True)
        else:
            if line:
                self._model.context.saved.use_filter(self._model.resource.kind, line)
            self._looking_up = ""
            self.post_message(self.Applied(params, self._parts.text if self._parts is not None else ""))

    def action_close(self) -> None:
        """Close the line, drop the typed text, and show the rows that were shown when the line was opened."""
        self._list.narrow(self._text_before)
        self.post_message(self.Closed())
