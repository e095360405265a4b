"""A dialog that posts the transactions of a CSV or JSONL file, after showing them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, ProgressBar, Static
from textual.worker import Worker, WorkerState

from ledger_tui.client.api import Api
from ledger_tui.client.errors import AlreadyDone, ClientError, NotOffered, Refusal, ServerError, Unreachable
from ledger_tui.client.names import AccountNames
from ledger_tui.client.session import Mode, Session
from ledger_tui.client.traffic import masked
from ledger_tui.features.batch.posting import (
    BadFile,
    Part,
    Posting,
    parts_of,
    post_part,
    prepare,
    read_file,
    totals,
)
from ledger_tui.formats.money import MINUS, format_amount
from ledger_tui.formats.text import fit, literal
from ledger_tui.ui.dialogs import ConfirmScreen, Dialog
from ledger_tui.ui.handlers import handles
from ledger_tui.ui.keys import KeyBar

_PREVIEWED = 6
_ITEM = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")


class FileRead(Message):
    """The file was read: its postings, or why it cannot be posted."""

    def __init__(self, postings: Sequence[Posting], problem: str = "") -> None:
        super().__init__()
        self.postings = postings
        self.problem = problem


class PartPosted(Message):
    """The next part was posted."""


class PartRefused(Message):
    """The next part was not posted. `again`: it may be tried again; `one_by_one`: there are no batches."""

    def __init__(self, sentence: str, *, again: bool = False, one_by_one: bool = False) -> None:
        super().__init__()
        self.sentence = sentence
        self.again = again
        self.one_by_one = one_by_one


class BatchScreen(Dialog[int]):
    """Returns how many transactions were posted."""

    BINDINGS = [
        Binding("enter", "go_on", "read the file", show=True, priority=True),
        Binding("escape", "close", "cancel", show=True),
    ]

    def __init__(self, path: str, api: Api, session: Session, names: AccountNames) -> None:
        super().__init__()
        self._path = path
        self._api = api
        self._session = session
        self._names = names
        self._postings: Sequence[Posting] = ()
        self._parts: list[Part] = []
        self._next = 0  # the number of the part to post next
        self._posted = 0
        self._one_by_one = False
        self._posting = False
        self._reading = False
        self._stopping = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="batch") as box:
            live = self._session.mode is Mode.LIVE
            box.border_title = "Post a file of transactions" + (" · ◆ LIVE" if live else "")
            yield Input(placeholder="transactions.csv or .jsonl", compact=True)
            yield Static(id="batch-preview")
            yield ProgressBar(show_eta=False)
            yield Static(id="batch-note")
            yield KeyBar()

    def on_mount(self) -> None:
        self.set_class(self._session.mode is Mode.LIVE, "-live")
        self.query_one(ProgressBar).display = False
        self._note(
            "Columns: account (id or name), type, amount (smallest unit) or decimal_amount (12.50);"
            " description and destination where wanted."
        )

    def _note(self, text: str, *, problem: bool = False) -> None:
        style = "bold $error" if problem else "$muted"
        self.query_one("#batch-note", Static).update(Content.styled(f"✕ {text}" if problem else text, style))

    def key_text(self, binding: Binding) -> str:
        """Return what enter and esc do now."""
        if binding.action == "close":
            return "stop" if self._posting else "close" if self._posted else "cancel"
        return f"post {self._left:,}" if self._parts else "read the file"

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        return None if action == "go_on" and (self._posting or self._reading or self._done) else True

    @property
    def _left(self) -> int:
        return sum(len(part.postings) for part in self._parts[self._next :])

    @property
    def _done(self) -> bool:
        return bool(self._parts) and self._next == len(self._parts)

    # ------------------------------------------------------------------ reading

    @on(Input.Changed)
    def another_file(self) -> None:
        """Forget what was read, as another file is meant."""
        if not self._posted:
            self._parts = []
            self.query_one("#batch-preview", Static).update("")
            self.refresh_bindings()

    def action_go_on(self) -> None:
        if self._parts:
            self._ask()
            return
        name = self.query_one(Input).value.strip()
        try:
            file = Path(name).expanduser()
        except RuntimeError:
            self._note("There is no such home folder.", problem=True)
            return
        self._reading = True
        self._note("Reading the file and its accounts…")
        self.refresh_bindings()
        self._read(file)

    @work(group="batch", exclusive=True, exit_on_error=False)
    async def _read(self, file: Path) -> None:
        try:
            rows = await asyncio.to_thread(read_file, file)
            self.post_message(FileRead(await prepare(self._api, self._names, rows)))
        except (BadFile, ClientError) as error:
            self.post_message(FileRead((), str(error)))

    @handles(FileRead)
    def show_file(self, message: FileRead) -> None:
        self._reading = False
        if message.problem:
            self._note("\n  ".join(map(literal, message.problem.split("\n"))), problem=True)
        else:
            self._postings = message.postings
            self._parts = parts_of(message.postings)
            self.query_one("#batch-preview", Static).update(self._preview())
            self._note(self._promise())
        self.refresh_bindings()

    def _preview(self) -> Content:
        lines = [self._line(posting) for posting in self._postings[:_PREVIEWED]]
        if len(self._postings) > _PREVIEWED:
            lines.append(Content.styled(f"… and {len(self._postings) - _PREVIEWED:,} more", "$muted"))
        sums = (
            f"{'▲ credit' if kind == 'credit' else '▼ debit'} {format_amount(total, currency)} {currency}"
            for (kind, currency), total in totals(self._postings).items()
        )
        return Content("\n").join([*lines, Content(""), Content("in all  " + ", ".join(sums))])

    def _line(self, posting: Posting) -> Content:
        body = posting.body
        sign, style = ("+", "$plus") if body["type"] == "credit" else (MINUS, "$minus")
        amount = f"{sign}{format_amount(body['amount'], posting.currency)} {posting.currency}"
        return Content.assemble(
            (f"{posting.line:>5}  ", "$muted"),
            (fit(amount, 18, "right"), style),
            "  ",
            fit(literal(self._names.name(body["account"])), 20),
            "  ",
            literal(body.get("description", "")),
        )

    def _promise(self) -> str:
        """Say what is posted together."""
        number = f"{self._left:,} transaction{'s' if self._left != 1 else ''}"
        if self._one_by_one:
            return f"{number}, one by one: those before a failure stay posted."
        if len(self._parts) == 1:
            return f"{number}, all or nothing."
        return f"{number} in {len(self._parts)} parts of up to 1,000; each part is posted as a whole or not."

    # ------------------------------------------------------------------ posting

    def _ask(self) -> None:
        """Post; in live mode only after the number of transactions was typed."""
        if self._session.mode is Mode.TEST:
            self._begin()
            return
        sums = self._preview().plain.rsplit("\n", 1)[-1]
        question = f"Post {self._promise()}\n\n{sums}"

        def answered(yes: bool | None) -> None:
            if yes:
                self._begin()

        confirm = ConfirmScreen(question, str(self._left), self._session.mode, what="number of transactions")
        self.app.push_screen(confirm, answered)

    def _begin(self) -> None:
        self._posting, self._stopping = True, False
        self.query_one(Input).disabled = True
        bar = self.query_one(ProgressBar)
        bar.display = True
        bar.update(total=self._posted + self._left, progress=self._posted)
        self._note("Posting…")
        self.refresh_bindings()
        self._post_next()

    def _post_next(self) -> None:
        self._post(self._parts[self._next])

    @work(group="batch", exclusive=True, exit_on_error=False)
    async def _post(self, part: Part) -> None:
        await asyncio.sleep(self._session.look_pause if self._posted else 0)
        try:
            await post_part(self._api, self._path, part, one=self._one_by_one)
        except AlreadyDone:  # an earlier attempt, whose answer was lost
            self.post_message(PartPosted())
        except NotOffered:
            self.post_message(PartRefused("", one_by_one=True))
        except (Unreachable, ServerError) as error:
            self.post_message(PartRefused(f"No answer ({literal(error)}).", again=True))
        except ClientError as error:
            self.post_message(PartRefused(_with_line(error, part)))
        else:
            self.post_message(PartPosted())

    @handles(PartPosted)
    def go_on(self) -> None:
        self._posted += len(self._parts[self._next].postings)
        self._next += 1
        self.query_one(ProgressBar).update(progress=self._posted)
        if self._done:
            self.notify(f"Posted {self._posted:,} transactions", markup=False)
            self.dismiss(self._posted)
        elif self._stopping:
            self._stop("Stopped.")
        else:
            self._note(f"{self._posted:,} posted; esc stops before the next part.")
            self._post_next()

    @handles(PartRefused)
    def part_refused(self, message: PartRefused) -> None:
        if message.one_by_one:
            self._one_by_one = True
            self._parts = parts_of(self._postings, 1)
            self._posting = False
            self._note(f"This server takes no batches. {self._promise()} ⏎ posts them.", problem=True)
            self.refresh_bindings()
        elif message.again:
            self._stop(f"{message.sentence} Posting again is safe: it takes effect only once.")
        else:
            whole = (
                "" if self._one_by_one or len(self._parts) == 1 else ", and nothing of its part was posted"
            )
            self._stop(f"{message.sentence} It was refused{whole}.")

    def _stop(self, sentence: str) -> None:
        self._posting = False
        before = f"{self._posted:,} of {self._posted + self._left:,} are posted" if self._posted else ""
        self._note(f"{sentence} {before or 'Nothing was posted'}.", problem=True)
        self.refresh_bindings()

    def action_close(self) -> None:
        """Stop before the next part, or close."""
        if self._posting:
            self._stopping = True
            self._note("Stopping after the part that was sent…")
        else:
            self.workers.cancel_group(self, "batch")
            self.dismiss(self._posted)

    @handles(Worker.StateChanged)
    def worker_ended(self, event: Worker.StateChanged) -> None:
        """Show an unexpected error here instead of waiting for ever."""
        event.prevent_default()
        if event.state is WorkerState.ERROR:
            self._reading = self._posting = False
            self._note(f"unexpected {literal(masked(repr(event.worker.error)))}", problem=True)
            self.refresh_bindings()


def _with_line(error: ClientError, part: Part) -> str:
    """Return the refusal with the line of the file that it is about."""
    found = _ITEM.search(error.param or "") if isinstance(error, Refusal) else None
    at = int(found[1]) if found else 0 if len(part.postings) == 1 else None
    if at is None or at >= len(part.postings):
        return literal(error)
    return f"Line {part.postings[at].line}: {literal(error)}"
