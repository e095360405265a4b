"""The small dialogs: to confirm, to choose, to show a secret once, and to ask for an API key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

from textual import events, on
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ledger_client.addresses import is_key
from ledger_tui.client.session import Mode
from ledger_tui.client.traffic import masked
from ledger_tui.formats.money import is_same_amount
from ledger_tui.formats.text import breakable, literal
from ledger_tui.ui.handlers import WorkerFailed, handles, while_running
from ledger_tui.ui.key_bar import KeyBar
from ledger_tui.ui.layer import Layer

_YES_ACTIONS = ("dismiss(True)", "yes")  # the actions of the key y in a question
_TOO_EARLY = "Press y again: the question had not been shown yet."
_TEXT_TOO_EARLY = "Type it again: the question had not been shown yet."
_ASIDE = frozenset({"names", "check", "balance"})  # groups of workers that no dialog waits for


class Dialog(ModalScreen[ScreenResultType], Layer[ScreenResultType]):
    """A box with a title and the widgets of `content`; the content can include `notes`, a line for messages.

    A dialog can be closed only once: a second click or a late answer has no effect. From a call of `begin` to
    a call of `rest` the dialog is `working`: it waits for the result of a worker.
    """

    VERTICAL_BREAKPOINTS = [(0, "-low"), (14, "-high")]  # in rows; on a low screen the box has no empty lines

    # If the user has selected text, Textual copies the text instead of running this action.
    BINDINGS = [Binding("ctrl+c", "interrupt", show=False)]

    def __init__(self, name: str, title: str = "", mode: Mode | None = None) -> None:
        super().__init__()
        self._box = name
        self._title = title  # never data: Textual reads markup in a border title
        self.mode = mode
        self.notes = Static(id=f"{name}-note")
        self.working = False
        self.opened_at = inf  # when the dialog was mounted, shortly before it is drawn

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id=self._box) as box:
            box.border_title = f"◆ LIVE · {self._title}" if self.mode is Mode.LIVE else self._title
            yield from self.content()

    def content(self) -> ComposeResult:
        """Yield the widgets in the box."""
        yield self.notes

    def on_mount(self) -> None:
        self.set_class(self.mode is Mode.LIVE, "-live")
        self.mount(KeyBar())  # covers the key bar of the main screen, whose keys do nothing now
        self.opened_at = Message().time  # of the clock that gives the keys their times
        if self.is_question:
            self.app.clear_notifications()  # they would cover the question

    @property
    def asks_text(self) -> bool:
        """Whether the user types a text, such as an amount, to confirm the question."""
        return False

    def is_too_early(self, event: events.Key | events.Paste) -> bool:
        if not self.is_question or event.time > self.opened_at:
            return False
        if isinstance(event, events.Paste):
            return self.asks_text
        if self.asks_text and (event.is_printable or event.key == "enter"):
            return True
        active = self.active_bindings.get(event.key)
        return active is not None and active.binding.action in _YES_ACTIONS and active.enabled

    def drop_early(self) -> None:
        self.notes.display = True
        self.note(_TEXT_TOO_EARLY if self.asks_text else _TOO_EARLY)

    @property
    def answers(self) -> str:
        """The sentence that names the keys with which the user can answer.

        The dialog shows this sentence when the user presses a key that does nothing here. In a dialog with a
        field for text, the sentence is "", because most keys type into the field.
        """
        return ""

    def on_key(self, event: events.Key) -> None:
        if self.answers and event.key not in self.active_bindings:
            self.notes.display = True
            self.note(self.answers)

    async def action_interrupt(self) -> None:
        """Handle ctrl+c: do the same as esc."""
        if (active := self.active_bindings.get("escape")) is not None:
            await self.app.run_action(active.binding.action, active.node)

    def note(self, text: str, *, problem: bool = False) -> None:
        """Replace the text of the line for messages with this text; a `problem` is shown as an error."""
        style = "bold $error" if problem else "$muted"
        self.notes.update(Content.styled(f"✕ {text}" if problem and text else text, style))

    def begin(self, text: str) -> None:
        """Show a note, and wait for the result of a worker."""
        self.working = True
        self.note(text)
        self.refresh_bindings()

    def rest(self, text: str, *, problem: bool = False) -> None:
        """Show the worker's result as a note, and no longer wait for it."""
        self.working = False
        self.note(text, problem=problem)
        self.refresh_bindings()

    @property
    def unfinished(self) -> str:
        """A sentence that says what quitting would lose while this dialog is open; "" if nothing is lost."""
        return "The answer to a running request is lost." if self.working else ""

    @handles(WorkerFailed)
    def work_failed(self, message: WorkerFailed) -> None:
        """Show an unexpected error here instead of waiting for ever."""
        if message.group not in _ASIDE:
            message.stop()
            self.rest(f"unexpected {literal(masked(repr(message.error)))}", problem=True)

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self not in self.app.screen_stack:
            return AwaitComplete()
        while self.app.screen is not self:  # close the dialogs above this one
            self.app.pop_screen()
        return super().dismiss(result)

    @while_running
    def end(self, result: ScreenResultType | None = None) -> None:
        """Close with the result of a worker.

        A worker passes this method to `call_later`. It cannot pass `dismiss`, because `call_later` would
        await the value that `dismiss` returns.
        """
        self.dismiss(result)


class Offers(OptionList, can_focus=False):
    """The list of completions of a typed line, next to the input. The input keeps the focus."""

    def __init__(self) -> None:
        super().__init__(markup=False, compact=True)
        self.display = False

    def offer(self, lines: Iterable[Content], highlighted: int | None = None) -> None:
        """Replace the shown lines with these lines."""
        self.clear_options()
        self.add_options(lines)
        self.display = self.option_count > 0
        self.highlighted = highlighted if self.display else None

    def step(self, step: int) -> None:
        """Highlight the next (`step` is 1) or the previous line (-1); the first line follows the last."""
        if count := self.option_count:
            at = (-1 if step > 0 else 0) if self.highlighted is None else self.highlighted
            self.highlighted = (at + step) % count


DIALOG_WIDTH = 76
FRAME = 6  # the border and the padding of a box
YES_OR_NO = "Press y to confirm, n to cancel."


_LOUD = re.compile(r"(?m)^.*, overdrawn$")  # the consequence that a user must not overlook


class AnswerLabels(NamedTuple):
    """The labels of `y` and `n` in the key bar, and the sentence that names these two keys."""

    yes: str
    no: str
    sentence: str


CONFIRM = AnswerLabels("yes", "no", YES_OR_NO)
LEAVE = AnswerLabels("leave", "stay", "Press y to leave, n to stay.")
QUIT = AnswerLabels("quit", "stay", "Press y to quit, n to stay.")


class ConfirmScreen(Dialog[bool]):
    """Asks a question, and returns True if the user confirms.

    To confirm, the user types `text_to_type`; if no text is given, the user presses `y`. Only esc, `n` and
    ctrl+c answer no. But if the question asks whether to leave a form or to quit, ctrl+c confirms, because a
    user who presses ctrl+c twice wants to leave.
    """

    is_question = True

    BINDINGS = [
        Binding("enter", "compare", "confirm", show=True, priority=True),
        Binding("y", "dismiss(True)", "yes", show=True),
        Binding("escape,n", "dismiss(False)", "no", show=True),
    ]

    def __init__(
        self,
        question: str,
        text_to_type: str | None = None,
        mode: Mode | None = None,
        *,
        what: str = "",
        labels: AnswerLabels = CONFIRM,
    ) -> None:
        super().__init__("confirm", "Confirm" if labels is CONFIRM else "", mode)
        self.labels = labels
        self._question = question
        self._text_to_type = text_to_type
        self._what = what  # the word for the text to type in a message, such as "number"

    @property
    def asks_text(self) -> bool:
        return self._text_to_type is not None

    def content(self) -> ComposeResult:
        width = min(DIALOG_WIDTH, self.app.size.width) - FRAME
        yield Static(Content(breakable(self._question, width)).highlight_regex(_LOUD, style="bold $error"))
        if self._text_to_type is not None:
            yield Static(
                Content.assemble("\nType ", (self._text_to_type, "bold"), " to confirm, then press enter.")
            )
            yield Input(compact=True)
        self.notes.display = self._text_to_type is not None
        yield self.notes

    @property
    def answers(self) -> str:
        return self.labels.sentence if self._text_to_type is None else ""

    def key_text(self, binding: Binding) -> str:
        """Return the label of a key in the key bar."""
        if binding.action == "compare":
            return binding.description
        return self.labels.yes if binding.action == "dismiss(True)" else self.labels.no

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "compare":
            return self._text_to_type is not None
        return parameters != (True,) or self._text_to_type is None

    async def action_interrupt(self) -> None:
        """Handle ctrl+c: confirm that the user leaves or quits; answer any other question with no."""
        self.dismiss(self.labels is not CONFIRM)

    def action_compare(self) -> None:
        typed, text = self.query_one(Input).value.strip(), str(self._text_to_type)
        is_amount = self._what in ("amount", "total")
        if typed == text or (is_amount and is_same_amount(typed, text)):
            self.dismiss(True)
        else:
            self.note(f"The {self._what} does not match.", problem=True)


def confirm(
    app: App[Any],
    question: str,
    text_to_type: str | None,
    mode: Mode,
    act: Callable[[], object],
    what: str = "",
) -> None:
    """Open a ConfirmScreen, and call `act` if the user confirms."""

    def answered(yes: bool | None) -> None:
        if yes:
            act()

    app.push_screen(ConfirmScreen(question, text_to_type, mode, what=what), answered)


class _Choices(OptionList):
    """The lines of a dialog. The key bar names the keys with which the user chooses a line."""

    BINDINGS = [
        Binding("down", "cursor_down", "choose", show=True),
        Binding("enter", "select", "use", show=True),
    ]

    def __init__(self, lines: Iterable[Content], verb: str) -> None:
        super().__init__(*map(Option, lines), markup=False, compact=True)
        self._verb = verb

    def key_text(self, binding: Binding) -> str:
        """Return the description of a key in the key bar."""
        return self._verb if binding.action == "select" else binding.description


class ChooseScreen(Dialog[int | None]):
    """Lets the user choose one of several lines. Returns the number of the chosen line, or None if the user
    closes the dialog. `verb` names the effect of enter in the key bar.

    The dialog calls `preview` with the number of each line that the user highlights.
    """

    BINDINGS = [Binding("escape,q", "dismiss", "close", show=True)]

    def __init__(
        self,
        title: str,
        lines: Sequence[Content],
        at: int = 0,
        preview: Callable[[int], None] = lambda _number: None,
        verb: str = "use",
    ) -> None:
        super().__init__("choose", title)
        self._verb = verb
        self._lines = lines
        self._at = at
        self._preview = preview

    def content(self) -> ComposeResult:
        yield _Choices(self._lines, self._verb)

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.highlighted = self._at if self._lines else None
        self.set_focus(options)

    @on(OptionList.OptionHighlighted)
    def show(self, event: OptionList.OptionHighlighted) -> None:
        self._preview(event.option_index)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)


class ShownOnceScreen(Dialog[None]):
    """Shows a secret that cannot be shown again. Only `esc` closes the dialog, so that no accidental key,
    such as enter, loses the secret.
    """

    BINDINGS = [
        Binding("y", "copy", "copy", show=True),
        Binding("escape", "dismiss", "I have it", show=True),
    ]

    def __init__(self, sentence: str, secret: str, note: str = "") -> None:
        super().__init__("shown-once", "Shown once")
        self._sentence = sentence
        self._secret = secret
        self._advice = note

    def content(self) -> ComposeResult:
        yield Static(Content(self._sentence))
        yield Static(Content.styled(f"\n{literal(self._secret)}\n", "bold $accent"))
        advice = "Store it now: it cannot be shown again. Keep it on a server, never in public code."
        yield Static(Content.styled(f"{self._advice}\n{advice}".strip() + "\n", "$muted"))

    @property
    def unfinished(self) -> str:
        return "The secret cannot be shown again."

    async def action_interrupt(self) -> None:
        """Handle ctrl+c: copy the secret instead of closing the dialog."""
        self.action_copy()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._secret)
        self.notify("Copied; it is on your clipboard until you copy something else")


class KeyScreen(Dialog[str | None]):
    """A dialog that asks for an API key, hides it while the user types, and returns it."""

    BINDINGS = [Binding("escape", "dismiss", "cancel", show=True)]

    def __init__(self) -> None:
        super().__init__("ask-key", "Another API key for this server")

    def content(self) -> ComposeResult:
        yield Input(password=True, compact=True)
        yield self.notes

    def on_mount(self) -> None:
        self.set_focus(self.query_one(Input))
        self.note("It is used until you quit. :save NAME stores it in a profile.")

    @on(Input.Submitted)
    def take(self, event: Input.Submitted) -> None:
        event.stop()
        key = event.value.strip()
        if is_key(key):
            self.dismiss(key)
        else:
            self.note("The key is empty or contains an invalid character.", problem=True)
