"""The fields of a form that are more than a line of text: a choice, a picker of names, an invoice's lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from ledger_tui.client.names import AccountName, Directory, UserName
from ledger_tui.formats.text import fit, literal
from ledger_tui.resources.invoices import (
    ONE_BLANK_LINE,
    TypedLine,
    column_at_fault,
    dump_lines,
    fault_of_column,
    load_lines,
    sum_as_typed,
)
from ledger_tui.ui.dialogs import Offers
from ledger_tui.ui.handlers import handles, while_running


@dataclass
class FieldChanged(Message):
    """The value of a form's field has changed; `entry` is the id of the field's widget."""

    entry: str | None


class ChoiceField(Widget, can_focus=True):
    """A field with a few fixed values. The arrow keys, space, or the first letter of a value change it."""

    BINDINGS = [
        Binding("left,up", "step(-1)", "previous", show=False),
        Binding("right,down,space", "step(1)", "next", show=False),
    ]

    index: reactive[int] = reactive(0)

    def __init__(self, choices: tuple[tuple[str, str], ...], value: str, *, id: str) -> None:
        super().__init__(id=id)
        self._choices = choices
        values = [choice for choice, _text in choices]
        self.set_reactive(ChoiceField.index, values.index(value) if value in values else 0)

    @property
    def value(self) -> str:
        return self._choices[self.index][0]

    def render(self) -> Content:
        parts = []
        for number, (_value, text) in enumerate(self._choices):
            is_chosen = number == self.index
            parts.append(
                Content.styled(f"{'●' if is_chosen else '○'} {text}", "bold" if is_chosen else "$muted")
            )
        if self.has_focus:
            letters = " ".join(value[0] for value, _text in self._choices)
            parts.append(Content.styled(f"{letters} or ← →", "$muted"))
        return Content("    ").join(parts)

    def watch_index(self) -> None:
        self.post_message(FieldChanged(self.id))

    def on_key(self, event: events.Key) -> None:
        first = [value[:1] for value, _text in self._choices]
        if event.character and event.character in first:
            event.stop()
            self.index = first.index(event.character)

    def action_step(self, step: int) -> None:
        self.index = (self.index + step) % len(self._choices)

    def on_click(self, _event: events.Click) -> None:
        self.screen.set_focus(self)
        self.action_step(1)


_MOST_SHOWN = 5


_LEAST_LOOKED_FOR = 2  # the form does not ask the server about a shorter text


class PickerField(Vertical):
    """An input that lists matching objects while the user types, and then shows the chosen object.

    If `source` returns an account, the field is for the other side of a transfer: it offers only other
    accounts in the currency of the source.
    """

    BINDINGS = [
        Binding("down", "pick(1)", "next match", show=False),
        Binding("up", "pick(-1)", "previous match", show=False),
    ]

    def __init__(
        self,
        directory: Directory[Any],
        value: str,
        hint: str,
        source: Callable[[], AccountName | None] = lambda: None,
        *,
        id: str,
    ) -> None:
        super().__init__(id=id)
        self._directory = directory
        self._source = source
        self._value = value
        self._hint = hint
        self._matches: list[AccountName | UserName] = []
        self._more_matches = 0  # the number of matches that the list has no room for
        self._is_browsing = False  # whether an empty input offers objects too
        self._is_closed = False  # whether the user has closed the list, until the text changes
        # The chosen object. If the input no longer shows this object's name, the choice does not count.
        self._choice: AccountName | UserName | None = None

    def compose(self) -> ComposeResult:
        choice = self._directory.get(self._value)
        self._choice = choice
        text = self._value if choice is None else literal(choice.name)
        yield Input(text, placeholder=self._hint, compact=True, select_on_focus=True)
        yield Offers()
        yield Static(classes="chosen")

    def on_mount(self) -> None:
        self._show_choice()

    def _show_choice(self) -> None:
        text = self.value
        choice, source = self._directory.get(text), self._source()
        beside = ""
        if choice is not None:
            beside = (
                f"{literal(choice.name)} · {literal(_distinguishing_detail(choice))} · {literal(choice.id)}"
            )
        elif self._more_matches:
            beside = f"and {self._more_matches} more: type more of the name"
        elif source is not None and text and self._has_only_others(text):
            beside = f"No other account in {literal(source.currency)} has this in its name."
        line = self.query_one(".chosen", Static)
        line.display = bool(beside)
        line.update(Content.styled(beside, "$muted"))

    def _has_only_others(self, text: str) -> bool:
        """Return whether known accounts match the text, but none that fits the source."""
        search = self._directory.search
        return bool(search(text, 1)) and not search(text, 1, self._fits)

    @property
    def looks_for(self) -> str:
        """The typed text to ask the server about.

        The value is "" if a known object matches, if the text is too short, or if the field does not have the
        focus.
        """
        text = self.value
        matches = self._directory.get(text) or self._matches
        return "" if matches or len(text) < _LEAST_LOOKED_FOR or not self.has_focus_within else text

    @property
    def is_unknown(self) -> bool:
        """Whether no known object has the typed text in its name, id or email."""
        text = self.value
        return bool(text) and self._directory.get(text) is None and not self._directory.search(text, 1)

    @property
    def is_ambiguous(self) -> bool:
        """Whether several known objects match the typed text, so that the form cannot choose an object."""
        text = self.value
        is_chosen = self._directory.get(text) or self._directory.resolve(text, self._fits)
        return bool(text) and not is_chosen and len(self._directory.search(text, 2, self._fits)) > 1

    def directory_changed(self) -> None:
        """Search the known objects again, because the text or the objects have changed."""
        self._offer(self.value if self.has_focus_within else "")
        self._show_choice()

    @property
    def offers(self) -> bool:
        """Whether the list shows an object to choose."""
        return bool(self._matches)

    @property
    def value(self) -> str:
        """The chosen object's id, or the typed text."""
        text = self.query_one(Input).value.strip()
        choice = self._choice
        return choice.id if choice is not None and text == literal(choice.name).strip() else text

    @on(Input.Changed)
    def search(self, event: Input.Changed) -> None:
        event.stop()
        self._is_browsing = self._is_closed = False
        self.directory_changed()
        self.post_message(FieldChanged(self.id))

    def _offer(self, text: str) -> None:
        match = self._directory.get(text)
        is_searching = (text and not match) or (self._is_browsing and self.has_focus_within)
        offers = is_searching and not self._is_closed
        found = self._directory.search(text, None, self._fits) if offers else []
        matches = found[:_MOST_SHOWN]
        self._more_matches = len(found) - len(matches)
        if matches == self._matches:
            return  # keep the highlight
        self._matches = matches
        self.query_one(Offers).offer(map(_line, matches), 0)

    def _fits(self, entry: AccountName | UserName) -> bool:
        source = self._source()
        if source is None or not isinstance(entry, AccountName):
            return True
        return entry.is_partner_of(source)

    def take_offered(self) -> bool:
        """Choose the highlighted object; return False if no object is listed."""
        self._offer(self.value)  # the list may lag behind the input
        index = self.query_one(Offers).highlighted
        if not self._matches or index is None:
            return False
        self._choose(index)
        return True

    def take_only(self) -> bool:
        """Choose the object whose whole name the user typed, or else the only matching object.

        Return True if the user must check the choice, because only a part of the name was typed. Return False
        if nothing is chosen, or if the form will refuse the chosen account: it then shows an error anyway.
        """
        text = self.value
        match = self._directory.resolve(text, self._fits)
        if match is None or self._directory.get(text) is not None:
            return False
        self._take(match)
        return self._fits(match) and bool(match.name.casefold() != text.casefold())

    def close_list(self) -> None:
        """Close the list until the text changes, or the user steps into the list."""
        self._is_closed, self._is_browsing = True, False
        self._offer("")
        self._show_choice()
        self.post_message(FieldChanged(self.id))

    def action_pick(self, step: int) -> None:
        """Highlight the next (`step` is 1) or the previous object (-1).

        If the input is empty and no objects are listed, list the newest objects instead. If the user has
        closed the list, open it again.
        """
        if self._is_closed and self.value:
            self._is_closed = False
            self.directory_changed()
            self.post_message(FieldChanged(self.id))
            return
        self._is_closed = False
        if self._matches or self.value:
            self.query_one(Offers).step(step)
        else:
            self._is_browsing = True
            self._offer("")
            self._show_choice()
            self.post_message(FieldChanged(self.id))  # the key bar shows that enter chooses now

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._choose(event.option_index)
        self.screen.set_focus(self.query_one(Input))

    def _choose(self, index: int) -> None:
        self._take(self._matches[index])

    def _take(self, choice: AccountName | UserName) -> None:
        self._choice, self._is_browsing = choice, False
        self.query_one(Input).value = literal(choice.name)
        self._offer("")
        self._show_choice()


def _distinguishing_detail(object_named: AccountName | UserName) -> str:
    """Return a detail that distinguishes objects of the same name: an account's currency, a user's email."""
    return object_named.currency if isinstance(object_named, AccountName) else object_named.email


def _line(match: AccountName | UserName) -> Content:
    return Content.assemble(
        fit(literal(match.name), 24),
        " ",
        literal(_distinguishing_detail(match)),
        "  ",
        (literal(match.id), "$muted"),
    )


_HEADINGS = (("description", "description"), ("quantity", "quantity"), ("unit-amount", "unit amount"))


class _Row(Horizontal):
    """One line of an invoice; the inputs stand in the order of the fields of `TypedLine`."""

    def __init__(self, line: TypedLine) -> None:
        super().__init__(classes="line")
        self._line = line

    def compose(self) -> ComposeResult:
        for (name, _text), value in zip(_HEADINGS, self._line, strict=True):
            yield Input(value, compact=True, classes=name)

    @property
    def line(self) -> TypedLine:
        inputs = [*self.query(Input)]
        return TypedLine(*(each.value for each in inputs)) if inputs else self._line


class LinesField(Vertical):
    """The lines of an invoice.

    For a new invoice, the field has no rows at first, because the user can type an amount instead. `currency`
    returns the currency of the sum.
    """

    BINDINGS = [
        Binding("down", "step(1)", "the line below", show=False),
        Binding("up", "step(-1)", "the line above", show=False),
    ]

    def __init__(self, value: str, hint: str, currency: Callable[[], str | None], *, id: str) -> None:
        super().__init__(id=id)
        self._lines = load_lines(value)
        self._hint = hint
        self._currency = currency

    def compose(self) -> ComposeResult:
        with Horizontal(classes="line", id="line-headings"):
            for name, text in _HEADINGS:
                yield Static(text, classes=name)
        yield from map(_Row, self._lines)
        yield Static(id="lines-sum")

    def on_mount(self) -> None:
        self.show_sum()

    @property
    def rows(self) -> Iterable[_Row]:
        return self.query(_Row)

    @property
    def value(self) -> str:
        """The rows as one text, or "" if all rows are empty."""
        return dump_lines(row.line for row in self.rows)

    @property
    def value_to_send(self) -> str:
        """The rows as one text. If all rows are empty, the text has one empty row, which the form refuses."""
        return self.value or (ONE_BLANK_LINE if self.has_rows else "")

    @property
    def has_rows(self) -> bool:
        return any(True for _row in self.rows)

    def show_sum(self) -> None:
        """Show the sum of the rows, in the currency of the chosen account."""
        self.query_one("#line-headings").display = self.has_rows
        text = (
            sum_as_typed((row.line for row in self.rows), self._currency()) if self.has_rows else self._hint
        )
        self.query_one("#lines-sum", Static).update(Content.styled(text, "$muted"))

    @on(Input.Changed)
    def row_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._changed()

    def _changed(self) -> None:
        self.show_sum()
        self.post_message(FieldChanged(self.id))

    # ------------------------------------------------------------------ rows

    async def add_row(self) -> None:
        """Add a row below the focused row, or at the end, and focus the new row."""
        here = self._focused_row()
        row = _Row(TypedLine())
        await self.mount(row, **({"after": here} if here is not None else {"before": "#lines-sum"}))
        self._changed()
        self.screen.set_focus(row.query(Input).first())

    async def remove_row(self) -> None:
        """Remove the focused row, and focus a row next to it; if no row is left, focus the previous field."""
        here, rows = self._focused_row(), [*self.rows]
        if here is None:
            return
        at = rows.index(here)
        beside = next(iter([*rows[at + 1 :], *rows[:at][::-1]]), None)
        if beside is not None:
            self.screen.set_focus(beside.query(Input).first())
        else:
            self.screen.focus_previous()
        await here.remove()
        self._changed()

    def _focused_row(self) -> _Row | None:
        return next((row for row in self.rows if row.has_focus_within), None)

    def focus_fault(self) -> bool:
        """Focus the first input with an invalid value; return False if all values are valid."""
        currency, are_blank = self._currency(), not self.value
        for row in self.rows:
            if (row.line.blank and not are_blank) or currency is None:
                continue
            column = column_at_fault(row.line, currency)
            if column is not None:
                self.screen.set_focus([*row.query(Input)][column])
                return True
        return False

    @property
    def fault_of_focused(self) -> str:
        """Why the value of the focused input is wrong; "" if the value is right, or the row is empty."""
        here, currency = self._focused_row(), self._currency()
        if here is None or here.line.blank or currency is None:
            return ""
        column = [each.has_focus for each in here.query(Input)].index(True)
        fault = fault_of_column(here.line, column, currency)
        return f"Line {[*self.rows].index(here) + 1}: {fault}" if fault else ""

    def action_step(self, step: int) -> None:
        """Focus the same column of the row that is `step` rows below."""
        here, rows = self._focused_row(), [*self.rows]
        if here is None or not 0 <= rows.index(here) + step < len(rows):
            return
        column = [each.has_focus for each in here.query(Input)].index(True)
        self.screen.set_focus([*rows[rows.index(here) + step].query(Input)][column])


class FieldList(VerticalScroll, can_focus=False):
    """The fields of a form. The focused field stays in view when the user moves to another field, when an
    error or a note appears, and when the terminal changes its size.
    """

    @handles(events.DescendantFocus)
    def focus_moved(self) -> None:
        self.call_after_refresh(self._show_focused)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_focused)

    def watch_virtual_size(self) -> None:
        self.call_after_refresh(self._show_focused)

    @while_running
    def _show_focused(self) -> None:
        """Scroll to the row of the focused field. If the row is higher than the list, scroll to the input."""
        if not self.is_attached:  # the form was closed in the meantime
            return
        focused = self.screen.focused
        row = next((row for row in self.children if row.has_focus_within), None)
        if focused is None or row is None:
            return
        row_fits = row.outer_size.height <= self.size.height
        # the matches of a picker stand below its input, so put the input at the top
        top = not row_fits and isinstance(focused.parent, PickerField)
        self.scroll_to_widget(row if row_fits else focused, animate=False, top=top)
