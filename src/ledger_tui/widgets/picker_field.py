"""A field for an account or a user, chosen by typing part of its name or the id."""

from __future__ import annotations

from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ledger_tui.messages import FieldChanged
from ledger_tui.state.names import AccountName, Directory, UserName
from ledger_tui.state.text import fit, literal

_MOST_SHOWN = 5
_LEAST_LOOKED_FOR = 2  # characters


class PickerField(Vertical):
    """An input that lists the matching objects while it is typed in, and otherwise the chosen one."""

    BINDINGS = [
        Binding("down", "pick(1)", "next match", show=False),
        Binding("up", "pick(-1)", "previous match", show=False),
    ]

    def __init__(self, directory: Directory[Any], value: str, hint: str, *, id: str) -> None:
        super().__init__(id=id)
        self._directory = directory
        self._value = value
        self._hint = hint
        self._matches: list[AccountName | UserName] = []
        self._chosen: AccountName | UserName | None = None  # while its name stands in the input

    def compose(self) -> ComposeResult:
        chosen = self._directory.get(self._value)
        self._chosen = chosen
        text = self._value if chosen is None else literal(chosen.name)
        yield Input(text, placeholder=self._hint, compact=True, select_on_focus=True)
        matches = OptionList(markup=False, compact=True)
        matches.can_focus = False
        matches.display = False
        yield matches
        yield Static(classes="chosen")

    def on_mount(self) -> None:
        self._say_chosen()

    def _say_chosen(self) -> None:
        chosen = self._directory.get(self.value)
        line = self.query_one(".chosen", Static)
        line.display = chosen is not None
        if chosen is not None:
            beside = f"{literal(chosen.name)} · {literal(_beside(chosen))} · {literal(chosen.id)}"
            line.update(Content.styled(beside, "$muted"))

    @property
    def looks_for(self) -> str:
        """The typed part of a name that no known object has; "" when there is nothing to look for."""
        text = self.value
        known = self._directory.get(text) or self._matches
        return "" if known or len(text) < _LEAST_LOOKED_FOR or not self.has_focus_within else text

    def directory_changed(self) -> None:
        """Search again, as more objects are known now."""
        self._offer(self.value if self.has_focus_within else "")
        self._say_chosen()

    @property
    def offers(self) -> bool:
        """Whether a listed object can be chosen."""
        return bool(self._matches)

    @property
    def value(self) -> str:
        """The chosen object's id, or the typed text."""
        text = self.query_one(Input).value.strip()
        chosen = self._chosen
        return chosen.id if chosen is not None and text == literal(chosen.name).strip() else text

    @on(Input.Changed)
    def search(self, event: Input.Changed) -> None:
        event.stop()
        self.directory_changed()
        self.post_message(FieldChanged(self.id))

    def _offer(self, text: str) -> None:
        known = self._directory.get(text)
        matches = self._directory.search(text, _MOST_SHOWN) if text and not known else []
        if matches == self._matches:
            return  # keep the highlight
        self._matches = matches
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(_line(match)) for match in matches)
        options.display = bool(matches)
        if matches:
            options.highlighted = 0

    def take_offered(self) -> bool:
        """Choose the highlighted object; return False if none is listed."""
        self._offer(self.value)  # the list may lag behind the input
        highlighted = self.query_one(OptionList).highlighted
        if not self._matches or highlighted is None:
            return False
        self._choose(highlighted)
        return True

    def take_only(self) -> bool:
        """Choose the object whose whole name was typed, or the only one that matches.

        Return whether only a part of its name was typed, so that the user has not seen which one it is.
        """
        typed = self.value
        found = self._directory.resolve(typed)
        if found is None or self._directory.get(typed) is not None:
            return False
        self._take(found)
        return bool(found.name.casefold() != typed.casefold())

    def action_pick(self, step: int) -> None:
        options = self.query_one(OptionList)
        if self._matches and options.highlighted is not None:
            options.highlighted = (options.highlighted + step) % len(self._matches)

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._choose(event.option_index)
        self.query_one(Input).focus()

    def _choose(self, index: int) -> None:
        self._take(self._matches[index])

    def _take(self, chosen: AccountName | UserName) -> None:
        self._chosen = chosen
        self.query_one(Input).value = literal(chosen.name)
        self._offer("")
        self._say_chosen()


def _beside(named: AccountName | UserName) -> str:
    """Return what distinguishes objects of the same name: an account's currency, a user's email."""
    return named.currency if isinstance(named, AccountName) else named.email


def _line(match: AccountName | UserName) -> Content:
    return Content.assemble(
        fit(literal(match.name), 24), " ", literal(_beside(match)), "  ", (literal(match.id), "$muted")
    )
