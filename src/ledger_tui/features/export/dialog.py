"""The dialog that exports the filtered list to a file, with its progress and result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, ProgressBar, Static
from textual.worker import Worker, WorkerState

from ledger_tui.client.api import Api
from ledger_tui.client.errors import ClientError
from ledger_tui.features.export.writing import ExportRequest, FileIsThere, Progress, export, format_of
from ledger_tui.formats.text import literal
from ledger_tui.ui.dialogs import Dialog
from ledger_tui.ui.handlers import handles
from ledger_tui.ui.keys import KeyBar


@dataclass
class ExportProgressed(Message):
    """An export has written `rows` rows; `total` is how many there are, if the server says."""

    rows: int
    total: int | None


@dataclass
class ExportEnded(Message):
    """An export has ended: `sentence` is the file, or says why it failed when `rows` is None.

    `there`: it failed because the file exists.
    """

    rows: int | None
    sentence: str
    there: bool = field(default=False, kw_only=True)


class ExportScreen(Dialog[str | None]):
    """Returns the sentence to notify with, or None when cancelled. `known_total` is the list's length."""

    BINDINGS = [
        Binding("ctrl+s,enter", "start", "export", show=True, priority=True),
        Binding("ctrl+o", "replace", "replace the file", show=True, priority=True),
        Binding("escape", "cancel", "cancel", show=True),
    ]

    def __init__(self, api: Api, wanted: ExportRequest, what: str, known_total: int | None) -> None:
        super().__init__()
        self._api = api
        self._wanted = wanted
        self._what = what
        self._known_total = known_total
        self._at_work: Worker[None] | None = None
        self._there = False  # whether the file exists, so that ^o would replace it

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="export") as box:
            box.border_title = "Export to CSV or JSONL"
            yield Static(Content(self._what), id="export-what")
            yield Input(str(self._wanted.file), compact=True)
            yield ProgressBar(show_eta=False)
            yield Static(id="export-note")
            yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(ProgressBar).display = False
        self._note("The file's extension decides the format: .csv for spreadsheets, .jsonl for programs.")

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        if action == "replace":
            return self._there and self._at_work is None
        return action != "start" or self._at_work is None

    def action_start(self) -> None:
        self._begin(replace_it=False)

    def action_replace(self) -> None:
        self._begin(replace_it=True)

    def action_cancel(self) -> None:
        if self._at_work is not None:
            if self._at_work.state is WorkerState.SUCCESS:  # its last message is still to be handled
                return
            self._at_work.cancel()
        self.dismiss(None)

    def _begin(self, *, replace_it: bool) -> None:
        if self._at_work is not None:
            return
        name = self.query_one(Input).value.strip()
        format_ = format_of(name)
        if format_ is None:
            self._note("✕ The name must end in .csv or .jsonl.", "bold $error")
            return
        try:
            file = Path(name).expanduser()
        except RuntimeError:
            self._note(f"✕ There is no home folder {literal(name.partition('/')[0])}.", "bold $error")
            return
        self._there = False
        wanted = replace(self._wanted, file=file, format=format_, replace=replace_it)
        bar = self.query_one(ProgressBar)
        bar.display = True
        bar.update(total=self._known_total, progress=0)
        self._note("Reading the first page…")
        self._at_work = self._export(wanted)
        self.refresh_bindings()

    @work(group="export", exit_on_error=False)
    async def _export(self, wanted: ExportRequest) -> None:
        try:
            done = await export(self._api, wanted, lambda progress: self._post_progress(progress))
        except ClientError as error:
            self.post_message(ExportEnded(None, literal(error), there=isinstance(error, FileIsThere)))
        else:
            self.post_message(ExportEnded(done.rows, literal(wanted.file)))

    def _post_progress(self, progress: Progress) -> None:
        self.post_message(ExportProgressed(progress.rows, progress.total))

    @handles(ExportProgressed)
    def show_progress(self, message: ExportProgressed) -> None:
        total = message.total or self._known_total
        if total is not None:
            total = max(total, message.rows)
            self.query_one(ProgressBar).update(total=total, progress=message.rows)
        of = f" of {total:,}" if total is not None else ""
        self._note(f"{message.rows:,}{of} written; esc cancels and leaves no file.")

    @handles(ExportEnded)
    def end(self, message: ExportEnded) -> None:
        if message.rows is not None:
            self.dismiss(f"Exported {message.rows:,} to {message.sentence}")
            return
        self._at_work = None
        self._there = message.there
        self.query_one(ProgressBar).display = False
        hint = " ^o replaces it; or choose another name." if message.there else ""
        self._note(f"✕ {message.sentence}{hint}", "bold $error")
        self.refresh_bindings()

    def _note(self, text: str, style: str = "$muted") -> None:
        self.query_one("#export-note", Static).update(Content.styled(text, style))
