"""The small dialogs: to confirm, to choose, to show a secret once, and the help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

from textual import events, on
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import ActiveBinding, Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ledger_tui.client.session import Mode
from ledger_tui.client.traffic import masked
from ledger_tui.formats.text import breakable, literal
from ledger_tui.ui.handlers import WorkerFailed, handles, while_running
from ledger_tui.ui.keys import KeyBar, usefulness
from ledger_tui.ui.layer import Layer

_ASIDE = frozenset({"names", "check", "balance"})  # groups of workers that no dialog waits for


class Dialog(ModalScreen[ScreenResultType], Layer[ScreenResultType]):
    """A box with a title and the widgets of `content`; the content can include `notes`, a line for messages.

    A dialog can be closed only once: a second click or a late answer has no effect. From a call of `begin` to
    a call of `rest` the dialog is `working`: it waits for the result of a worker.
    """

    # While a dialog is open, Textual ignores the application's keys, so each dialog binds ctrl+c again. If
    # the user has selected text, Textual copies the text instead of running this action.
    BINDINGS = [Binding("ctrl+c", "app.help_quit", show=False)]

    def __init__(self, name: str, title: str = "", mode: Mode | None = None) -> None:
        super().__init__()
        self._box = name
        self._title = title  # never data: Textual reads markup in a border title
        self.mode = mode
        self.notes = Static(id=f"{name}-note")
        self.working = False

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

    @property
    def answers(self) -> str:
        """The sentence that names the keys with which the user can answer.

        The dialog shows this sentence when the user presses enter. If enter has an effect of its own, the
        sentence is "".
        """
        return ""

    def on_key(self, event: events.Key) -> None:
        if event.key == "enter" and self.answers:
            self.notes.display = True
            self.note(self.answers)

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


class DiscardScreen(Dialog[bool]):
    """Asks whether to leave a form or, if `quits` is True, the dashboard.

    Returns True for `y`, and False for any other key, not only for `n`, esc and ctrl+c.
    """

    BINDINGS = [
        Binding("y", "dismiss(True)", "leave", show=True),
        Binding("escape,n", "dismiss(False)", "stay", show=True),
    ]

    def __init__(self, loss: str, *, quits: bool = False) -> None:
        super().__init__("discard")
        self._loss = loss
        self.quits = quits

    def content(self) -> ComposeResult:
        yield Static(Content(f"{'Quit the dashboard' if self.quits else 'Leave the form'}? {self._loss}"))
        yield self.notes

    def key_text(self, binding: Binding) -> str:
        """Return the label of a key in the key bar."""
        return "quit" if self.quits and binding.key == "y" else binding.description

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(event.key == "y")


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


_DIALOG_WIDTH = 76
_FRAME = 6  # the border and the padding of a box
YES_OR_NO = "Press y to confirm, n to cancel."


class ConfirmScreen(Dialog[bool]):
    """Asks a question, and returns True if the user confirms.

    To confirm, the user types `text_to_type`; if no text is given, the user presses `y`.
    """

    BINDINGS = [
        Binding("y", "dismiss(True)", "yes", show=True),
        Binding("escape,n", "dismiss(False)", "no", show=True),
        Binding("ctrl+c", "screen.dismiss(False)", show=False),
    ]

    def __init__(self, question: str, text_to_type: str | None, mode: Mode, *, what: str = "") -> None:
        super().__init__("confirm", "Confirm", mode)
        self._question = question
        self._text_to_type = text_to_type
        self._what = what  # the word for the text to type in a message, such as "number"

    def content(self) -> ComposeResult:
        width = min(_DIALOG_WIDTH, self.app.size.width) - _FRAME
        yield Static(Content(breakable(self._question, width)))
        if self._text_to_type is not None:
            yield Static(
                Content.assemble("\nType ", (self._text_to_type, "bold"), " to confirm, then press enter.")
            )
            yield Input(compact=True)
        self.notes.display = self._text_to_type is not None
        yield self.notes

    @property
    def answers(self) -> str:
        return YES_OR_NO if self._text_to_type is None else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return parameters != (True,) or self._text_to_type is None

    @on(Input.Submitted)
    def compare(self, event: Input.Submitted) -> None:
        if event.value.strip() == self._text_to_type:
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


class ChooseScreen(Dialog[int | None]):
    """Lets the user choose one of several lines. Returns the number of the chosen line, or None if the user
    closes the dialog.

    The dialog calls `preview` with the number of each line that the user highlights.
    """

    BINDINGS = [Binding("escape,q", "dismiss", "close", show=True)]

    def __init__(
        self,
        title: str,
        lines: Sequence[Content],
        at: int = 0,
        preview: Callable[[int], None] = lambda _number: None,
    ) -> None:
        super().__init__("choose", title)
        self._lines = lines
        self._at = at
        self._preview = preview

    def content(self) -> ComposeResult:
        yield OptionList(*(Option(line) for line in self._lines), markup=False, compact=True)

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

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._secret)
        self.notify("Copied; it is on your clipboard until you copy something else")


_KEY_WIDTH = 10
_WIDEST = 100  # the maximum width of the help
_TWO_COLUMNS = 80  # the minimum width of a screen with two columns of help

# The help sorts actions into groups by the beginnings of their names: on an object, in time, everywhere.
_ON_OBJECT = (
    "open",
    "select",
    "edit",
    "act(",
    "go(",
    "send_again",
    "trace",
    "prove",
    "take_back",
    "app.repair",
    "locate",
    "ids",
    "mark",
    "raw",
    "program",
    "screen.copy_id",
    "screen.compare",
)
_IN_TIME = ("step(", "past(")
_EVERYWHERE = ("show(", "command", "help", "travel(", "themes", "app.", "suspend_process")
# Two actions share one line in the help if the names of both begin with the same text of this list. The
# number keys, which open the screens, also share a line.
_FAMILIES = ("move(", "choose(", "tile(", "window(", "widen(", "travel(", "step(", "program(")
_SCREENS = "the screens"
# Typed commands that the help lists below the keys of a group.
_LINES = {"everywhere": (":flows", "money between accounts"), "in time": (":at -2h", "go to a moment")}


class HelpScreen(Dialog[None]):
    """Shows the keys that work on the screen below the dialog, in groups.

    `/` searches: the dialog then shows only the lines that contain the typed text.
    """

    BINDINGS = [
        Binding("escape,question_mark,q", "dismiss", "close", show=True),
        Binding("slash", "search", "search", show=True),
    ]

    def __init__(self, bindings: Iterable[ActiveBinding]) -> None:
        super().__init__("help", "Keys")
        # Leave out Textual's own bindings, which lack an id, except the binding of the palette.
        possible = [each.binding for each in bindings if each.enabled]
        ours = [each for each in possible if each.id or each.action.endswith("command_palette")]
        self._shown_keys = sorted(ours, key=lambda binding: usefulness(binding.action) or len(ours))

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help", classes="dialog") as box:
            box.border_title = self._title
            box.set_class(self.app.size.width >= _TWO_COLUMNS, "-wide")
            line = Input(compact=True, placeholder="part of a key's description")
            line.display = False
            yield line
            yield Static(self._text())

    def on_mount(self) -> None:
        super().on_mount()
        box = self.query_one("#help", VerticalScroll)
        self.watch(box, "scroll_y", self._show_rest)
        self.watch(box, "virtual_size", self._show_rest_after_layout)

    def on_resize(self) -> None:
        self._show_rest_after_layout()

    def _show_rest_after_layout(self) -> None:
        self.call_after_refresh(self._show_rest)  # the box gets its new size at the layout

    def _show_rest(self) -> None:
        """Show on the border whether more keys follow below the visible part."""
        box = self.query_one("#help", VerticalScroll)
        box.border_subtitle = "↓ more" if box.scroll_y < box.max_scroll_y else ""

    def action_search(self) -> None:
        line = self.query_one(Input)
        line.display = True
        self.set_focus(line)

    @on(Input.Changed)
    def search(self, event: Input.Changed) -> None:
        self.query_one(Static).update(self._text(event.value.strip().casefold()))

    def _text(self, text: str = "") -> Content:
        """Return the lines that contain `text`: two groups for this screen and two for all screens."""
        groups: dict[str, list[Content]] = {
            name: self._lines(name, text) for name in ("here", "on this object", "everywhere", "in time")
        }
        blocks = [
            [Content.styled(name.capitalize(), "bold"), *lines] if lines else []
            for name, lines in groups.items()
        ]
        if self.app.size.width < _TWO_COLUMNS:
            return Content("\n").join([line for block in blocks for line in block])
        width = (min(self.app.size.width, _WIDEST) - _FRAME) // 2
        rows = [
            Content.assemble(left.truncate(width, ellipsis=True, pad=True), right)
            for pair in (blocks[:2], blocks[2:])
            for left, right in zip_longest(*pair, fillvalue=Content(""))
        ]
        return Content("\n").join(rows)

    def _lines(self, group: str, text: str) -> list[Content]:
        """Return the lines of a group that contain `text`."""
        # A line of the help shows a family of actions. For each family: its descriptions, each with its keys.
        families: dict[str, dict[str, list[str]]] = {}
        for binding in self._shown_keys:
            action, key = binding.action, self.app.get_key_display(binding)
            if _group_of(action) != group:
                continue
            if action.startswith("show(") and key.isdigit():
                families.setdefault(_SCREENS, {}).setdefault(_SCREENS, [""])[0] += key
                continue
            family = next((name for name in _FAMILIES if action.startswith(name)), action)
            families.setdefault(family, {}).setdefault(binding.description, []).append(key)
        if families and group in _LINES:
            line, about = _LINES[group]
            families[line] = {about: [line]}
        lines = []
        for keys_of in families.values():
            keys = " ".join(dict.fromkeys(key for names in keys_of.values() for key in names))
            description = ", ".join(keys_of)
            if text in f"{keys} {description}".casefold():
                key_text = Content.styled(keys.rjust(_KEY_WIDTH), "bold $accent")
                lines.append(Content.assemble(key_text, f"  {description}"))
        return lines


def _group_of(action: str) -> str:
    """Return the group of an action in the help."""
    if action.startswith(_IN_TIME):
        return "in time"
    if action.startswith(_EVERYWHERE) or action.endswith("command_palette"):
        return "everywhere"
    return "on this object" if action.startswith(_ON_OBJECT) else "here"
