"""The command line at the bottom of the screen, with what completes it above; and the question for a key."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ledger_tui.client.transport import is_key
from ledger_tui.resources.command_line import BadCommand, Choices, Command, completions, parse_command
from ledger_tui.screens.dialog import Dialog
from ledger_tui.state.text import fit, literal

_SHOWN = 8
_WIDTH = 34


class CommandScreen(Dialog[Command | None]):
    """Returns the command that was typed. tab completes, `↑` and `↓` choose among the completions."""

    BINDINGS = [
        Binding("escape", "none", "close", show=True),
        Binding("tab", "complete", "complete", show=True, priority=True),
        Binding("down", "choose(1)", show=False, priority=True),
        Binding("up", "choose(-1)", show=False, priority=True),
    ]

    def __init__(self, choices: Choices, begun: str = "") -> None:
        super().__init__()
        self._choices = choices
        self._begun = begun  # a line to go on with
        self._found: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="command-line"):
            yield OptionList(markup=False, compact=True)
            yield Static(id="command-problem")
            yield Input(
                self._begun,
                compact=True,
                select_on_focus=False,
                placeholder="inv paid, txn acc_…, profile NAME, q",
            )

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        self.query_one(Input).focus()
        self._show(self._begun)

    @on(Input.Changed)
    def typed(self, event: Input.Changed) -> None:
        self._show(event.value)

    def _show(self, line: str) -> None:
        self._found = completions(line, self._choices)[:_SHOWN]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(
            Option(Content.assemble(fit(literal(text), _WIDTH), (f"  {literal(about)}", "$muted")))
            for text, about in self._found
        )
        options.display = bool(self._found)
        options.highlighted = None
        self._say("")

    def _say(self, problem: str) -> None:
        line = self.query_one("#command-problem", Static)
        line.display = bool(problem)
        line.update(Content.styled(f"✕ {literal(problem)}" if problem else "", "bold $error"))

    def action_choose(self, step: int) -> None:
        options = self.query_one(OptionList)
        if self._found:
            at = (-1 if step > 0 else 0) if options.highlighted is None else options.highlighted
            options.highlighted = (at + step) % len(self._found)

    def action_complete(self) -> None:
        """Take the chosen completion, or the first."""
        if self._found:
            self._take(self._found[self.query_one(OptionList).highlighted or 0][0])

    def _take(self, text: str) -> None:
        line = self.query_one(Input)
        line.value = text if text.endswith(":") else f"{text} "
        line.cursor_position = len(line.value)

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        self._take(self._found[event.option_index][0])
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def run_line(self, event: Input.Submitted) -> None:
        event.stop()
        chosen = self.query_one(OptionList).highlighted
        line = event.value if chosen is None else self._found[chosen][0]
        try:
            command = parse_command(line, self._choices)
        except BadCommand as error:
            self._say(str(error))
        else:
            self.dismiss(command)

    def action_none(self) -> None:
        self.dismiss(None)


class KeyScreen(Dialog[str | None]):
    """Asks for an API key, which is not shown while it is typed; returns it."""

    BINDINGS = [Binding("escape", "none", "cancel", show=True)]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="ask-key") as box:
            box.border_title = "Another API key for this server"
            yield Input(password=True, compact=True)
            yield Static("It is used until you quit. :save NAME then keeps it in a profile.", id="key-note")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def take(self, event: Input.Submitted) -> None:
        event.stop()
        key = event.value.strip()
        if is_key(key):
            self.dismiss(key)
        else:
            note = Content.styled("✕ It is empty or has characters that a key cannot have.", "bold $error")
            self.query_one("#key-note", Static).update(note)

    def action_none(self) -> None:
        self.dismiss(None)
