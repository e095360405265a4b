"""Exports lists to files, page by page.

Only one page is in memory at a time, and the file gets its name only when it is complete.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TextIO

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.widgets import Input, ProgressBar, Static
from textual.worker import Worker, WorkerState

from ledger_client.errors import LedgerError
from ledger_tui.client.api import Api
from ledger_tui.client.lists import fetch_page, learn_account
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record, Want
from ledger_tui.client.traffic import masked
from ledger_tui.formats.text import literal
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.filtering import filter_line
from ledger_tui.ui.dialogs import Dialog
from ledger_tui.ui.handlers import asks, while_running
from ledger_tui.ui.view import View

Format = Literal["csv", "jsonl"]


# A spreadsheet evaluates a cell that begins with one of these signs as a formula. Some spreadsheets also
# accept the full-width signs.
_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")


def json_line(record: Record) -> str:
    """Return one record as a line of JSONL, with its secrets masked."""
    return masked(json.dumps(record)) + "\n"


def csv_lines(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as CSV (RFC 4180: comma, CRLF, quotes doubled)."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def columns_of(records: Iterable[Record], columns: Sequence[str] = ()) -> list[str]:
    """Return `columns`, followed by the records' other fields in the order in which these first appear."""
    return list(dict.fromkeys([*columns, *(name for record in records for name in record)]))


def csv_row(record: Record, columns: Sequence[str]) -> list[str]:
    """Return a record's cells; an absent or null field is empty, a nested value is JSON."""
    return [cell(record.get(column)) for column in columns]


def cell(value: Any) -> str:
    """Return a value as the text of a cell.

    A text that a spreadsheet would evaluate gets a `'` in front; a number stays a number.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = masked(text)
    return "'" + text if text[:1] in _FORMULA_STARTS and text else text


def format_of(file_name: str) -> Format | None:
    """Return the format for the extension of a file's name; None for any other extension."""
    for suffix in ("csv", "jsonl"):
        if file_name.lower().endswith(f".{suffix}"):
            return "csv" if suffix == "csv" else "jsonl"
    return None


def whole_path(file: Path) -> str:
    """Return the absolute path of a file, with `~` for the user's home folder."""
    path = Path(os.path.abspath(file))
    home = Path(os.path.expanduser("~"))  # Path.home() would raise an error if there is no home folder
    return literal(Path("~", path.relative_to(home)) if path.is_relative_to(home) else path)


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """The list to export, and the file to write."""

    path: str
    filters: Mapping[str, str]
    part: str | None
    file: Path
    format: Format
    replace: bool = False  # whether an existing file may be replaced
    # the known accounts, for the currencies of amounts
    names: AccountNames = field(default_factory=AccountNames)
    keep: Callable[[Record], bool] | None = None  # returns whether to write a row; None writes all rows
    rows: Sequence[Record] | None = None  # rows to write instead of the list


@dataclass(frozen=True, slots=True)
class ExportProgress:
    rows: int
    # the length of the list; None if the server does not report the length, as for a list with cursors
    total: int | None


class CannotWrite(LedgerError):
    """The file cannot be written; the message is a sentence."""


class FileIsThere(CannotWrite):
    """The file exists, and the user has not allowed the export to replace it."""


async def export(
    api: Api, request: ExportRequest, report: Callable[[ExportProgress], object]
) -> ExportProgress:
    """Write a list to a file, and call `report` after each page. Raises LedgerError.

    The rows go to a temporary file (mode 0600) in the folder of `request.file`. At the end the export renames
    the temporary file to `request.file`. The export replaces an existing file only if `request.replace` is
    true. A cancelled export leaves no file.
    """
    try:
        if request.file.is_dir():
            raise CannotWrite(f"{request.file.name} is a folder.")
        if request.file.exists() and not request.file.is_file():
            raise CannotWrite(f"{request.file.name} is not a regular file.")
        if not request.replace and request.file.exists():
            raise FileIsThere(f"{request.file.name} already exists.")
        draft = _Draft(request.file, request.format)
    except OSError as error:
        raise CannotWrite(f"Cannot write there: {error.strerror}.") from None
    try:
        progress = await _write_pages(api, request, draft, report)
        await _in_thread(draft.seal)
        draft.take_name(request.replace)
        return progress
    except FileExistsError:
        raise FileIsThere(f"{request.file.name} already exists.") from None
    except OSError as error:
        raise CannotWrite(f"Cannot continue writing: {error.strerror}.") from None
    finally:
        draft.discard()


async def _in_thread(step: Callable[..., None], *arguments: object) -> None:
    """Run a blocking step in a thread.

    A thread cannot be stopped, and `export` must not remove the file while the step still writes. So a
    cancellation waits until the thread has ended.
    """
    running = asyncio.ensure_future(asyncio.to_thread(step, *arguments))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


async def _write_pages(
    api: Api, request: ExportRequest, draft: _Draft, report: Callable[[ExportProgress], object]
) -> ExportProgress:
    if request.rows is not None:
        await _in_thread(draft.add, await _with_currencies(api, request.names, request.rows))
        return ExportProgress(len(request.rows), len(request.rows))
    rows, cursor, first = 0, None, True
    cursors: set[str | None] = set()
    while first or cursor is not None:
        first = False
        want = Want(0, "page", 0, cursor, met=cursors)
        page = await fetch_page(api, request.path, request.filters, want, request.part)
        kept = page.rows if request.keep is None else [*filter(request.keep, page.rows)]
        await _in_thread(draft.add, await _with_currencies(api, request.names, kept))
        rows += len(kept)
        report(ExportProgress(rows, page.total))
        cursors.add(cursor)
        cursor = page.older
    return ExportProgress(rows, rows)


async def _with_currencies(api: Api, names: AccountNames, rows: Sequence[Record]) -> list[Record]:
    """Return the rows; a row with an amount but no currency gets the currency of its account."""
    bare = [row for row in rows if "amount" in row and "account" in row and "currency" not in row]
    for account_id in names.unknown(row["account"] for row in bare):
        await learn_account(api, names, account_id)
    without = {id(row) for row in bare}
    return [_with_currency(row, names) if id(row) in without else row for row in rows]


def _with_currency(row: Record, names: AccountNames) -> Record:
    currency = names.currency(row["account"])
    complete: Record = {}
    for name, value in row.items():
        complete[name] = value
        if name == "amount":
            complete["currency"] = currency
    return complete


class _Draft:
    """The file of an export until it is complete and gets its final name.

    `add` and `seal` can take long, so they run in a thread. The other methods run in the event loop, where a
    cancellation cannot interrupt them half way.
    """

    def __init__(self, file: Path, format_: Format) -> None:
        self._file = file
        self._format = format_
        self._columns: list[str] = []
        self._path, self._stream = self._new()

    def _new(self) -> tuple[Path, TextIO]:
        # `mkstemp` creates the file with mode 0600
        descriptor, name = tempfile.mkstemp(dir=self._file.parent, prefix=f".{self._file.name}.")
        return Path(name), os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="")

    def add(self, rows: Sequence[Record]) -> None:
        if self._format == "jsonl":
            self._stream.writelines(json_line(record) for record in rows)
            return
        columns = columns_of(rows, self._columns)
        if columns != self._columns:
            self._widen(columns)
        self._stream.write(csv_lines(csv_row(record, columns) for record in rows))

    def _widen(self, columns: list[str]) -> None:
        """Write the line of column names. If the file already has rows, which lack the new columns, write the
        whole file again with these columns.
        """
        before, old_path, old_stream = self._columns, self._path, self._stream
        self._columns = columns
        if not before:
            old_stream.write(csv_lines([columns]))
            return
        old_stream.close()
        self._path, self._stream = self._new()
        padding = [""] * (len(columns) - len(before))
        try:
            with old_path.open(encoding="utf-8", newline="") as old:
                rows = csv.reader(old)
                next(rows)
                self._stream.write(csv_lines([columns]))
                for row in rows:
                    self._stream.write(csv_lines([[*row, *padding]]))
        finally:
            old_path.unlink(missing_ok=True)

    def seal(self) -> None:
        """Sync the file to the disk, and close it."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()

    def take_name(self, replace: bool) -> None:
        """Give the file its final name.

        Raises FileExistsError if another program has created a file of this name.
        """
        if replace:
            os.replace(self._path, self._file)
            return
        try:
            os.link(self._path, self._file)  # a rename would replace an existing file
        except FileExistsError:
            raise
        # this file system lacks hard links: reserve the name with an empty file, then replace the empty file
        except OSError:
            os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            try:
                os.replace(self._path, self._file)
            except OSError:
                self._file.unlink()
                raise

    def discard(self) -> None:
        """Remove the temporary name of the file. A complete file keeps its final name."""
        # `close` writes the rest of the buffer. On a full disk this fails, but the rest is not needed.
        with suppress(OSError):
            self._stream.close()
        self._path.unlink(missing_ok=True)


class ExportScreen(Dialog[str | None]):
    """The dialog of an export.

    Returns the sentence for the notification, or None if the user cancelled. `known_total` is the length of
    the list, if it is known.
    """

    BINDINGS = [
        Binding("ctrl+s,enter", "start(False)", "export", show=True, priority=True),
        Binding("ctrl+o", "start(True)", "replace the file", show=True, priority=True),
        Binding("escape", "cancel", "cancel", show=True),
    ]

    def __init__(self, api: Api, request: ExportRequest, what: str, known_total: int | None) -> None:
        super().__init__("export", "Export to CSV or JSONL")
        self._api = api
        self._request = request
        self._what = what
        self._known_total = known_total
        self._at_work: Worker[None] | None = None
        self._file_exists = False  # whether the last attempt found an existing file, which ^o would replace

    def content(self) -> ComposeResult:
        yield Static(Content(self._what), id="export-what")
        yield Input(str(self._request.file), compact=True)
        yield ProgressBar(show_eta=False)
        yield self.notes

    def on_mount(self) -> None:
        self.query_one(ProgressBar).display = False
        self._note_file(self._request.file)

    def _note_file(self, file: Path) -> None:
        self.note(
            f"Writes {whole_path(file)}. The name ends in .csv for spreadsheets, in .jsonl for programs."
        )

    @on(Input.Changed)
    def typed(self, event: Input.Changed) -> None:
        """Show the whole path of the typed file name once the name is complete, unless the export runs."""
        name = event.value.strip()
        if not self.working and format_of(name) is not None:
            with suppress(RuntimeError):  # `~name` for an unknown user; `action_start` reports that
                self._note_file(Path(name).expanduser())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "start" or (not self.working and (self._file_exists or parameters != (True,)))

    def action_cancel(self) -> None:
        if self.working and self._at_work is not None:
            if self._at_work.state is WorkerState.SUCCESS:
                return  # the export is complete; the message that closes the dialog is on its way
            self._at_work.cancel()
        self.dismiss(None)

    def action_start(self, replace_it: bool) -> None:
        if self.working:
            return
        name = self.query_one(Input).value.strip()
        format_ = format_of(name)
        if format_ is None:
            self.note("The name must end in .csv or .jsonl.", problem=True)
            return
        try:
            file = Path(name).expanduser()
        except RuntimeError:
            self.note(f"There is no home folder {literal(name.partition('/')[0])}.", problem=True)
            return
        self._file_exists = False
        request = replace(self._request, file=file, format=format_, replace=replace_it)
        bar = self.query_one(ProgressBar)
        bar.display = True
        bar.update(total=self._known_total, progress=0)
        self._at_work = self._export(request)
        self.begin("Reading the first page…")

    @asks("export", exclusive=False)
    async def _export(self, request: ExportRequest) -> None:
        try:
            progress = await export(self._api, request, partial(self.call_later, self._show_progress))
        except LedgerError as error:
            self.call_later(self._failed, literal(error), isinstance(error, FileIsThere))
        else:
            self.call_later(self.end, f"Exported {progress.rows:,} to {whole_path(request.file)}")

    @while_running
    def _show_progress(self, progress: ExportProgress) -> None:
        total = progress.total or self._known_total
        if total is not None:
            total = max(total, progress.rows)
            self.query_one(ProgressBar).update(total=total, progress=progress.rows)
        of = f" of {total:,}" if total is not None else ""
        self.note(f"{progress.rows:,}{of} written; esc cancels and leaves no file.")

    @while_running
    def _failed(self, sentence: str, file_exists: bool) -> None:
        """Show why the export failed; `file_exists` means that the reason is an existing file."""
        self._file_exists = file_exists
        self.query_one(ProgressBar).display = False
        hint = " ^o replaces it; or choose another name." if file_exists else ""
        self.rest(f"{sentence}{hint}", problem=True)


def export_rows(view: View, rows: Sequence[Record], file: str, what: str) -> None:
    """Write rows that the dashboard has computed to a file."""
    request = ExportRequest("", {}, None, Path(file), "csv", names=view.context.names, rows=rows)
    _ask(view, request, what, len(rows))


def export_list(view: View) -> None:
    """Write the list of a view, or its marked rows, to a file."""
    path_and_params = view.resource.list_path(view.model.filters) if isinstance(view, ResourceView) else None
    if not isinstance(view, ResourceView) or path_and_params is None:
        view.notify("There is no list here to export.")
        return
    (path, params), resource, model = path_and_params, view.resource, view.model
    request = ExportRequest(
        path,
        params,
        resource.part,
        Path(f"{resource.kind}.csv"),
        "csv",
        names=view.context.names,
        keep=model.condition,
        rows=model.marked or None,
    )
    filter_text = " ".join(filter(None, (filter_line(model.filters, resource.filters), model.text)))
    what = f"{resource.title}, {literal(filter_text)}" if filter_text else f"All {resource.title.lower()}"
    total = len(model.window) if model.window.complete else model.window.total
    if model.marks:
        what, total = f"{resource.title}, the {len(model.marks):,} marked", len(model.marks)

    _ask(view, request, what, total)


def _ask(view: View, request: ExportRequest, what: str, total: int | None) -> None:
    def exported(sentence: str | None) -> None:
        if sentence is not None:
            view.notify(sentence, markup=False)

    view.app.push_screen(ExportScreen(view.context.api, request, what, total), exported)
