"""A list into a file, page by page: memory for one page, and no file under its name until it is whole."""

from __future__ import annotations

import asyncio
import csv
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from ledger_tui.client.api import Api
from ledger_tui.client.errors import ClientError
from ledger_tui.client.lists import Paging, fetch_page, learn_account
from ledger_tui.state.export_formats import Format, columns_of, csv_lines, csv_row, json_line
from ledger_tui.state.names import AccountNames
from ledger_tui.state.window import Record, Want


@dataclass(frozen=True, slots=True)
class Asked:
    """Which list, and where to."""

    path: str
    paging: Paging
    filters: Mapping[str, str]
    part: str | None
    file: Path
    format: Format
    replace: bool = False  # whether a file that is there may be replaced
    names: AccountNames = field(default_factory=AccountNames)  # what is known of accounts already


@dataclass(frozen=True, slots=True)
class Progress:
    rows: int
    total: int | None  # as the server tells it; a list paged by cursor does not


class CannotWrite(ClientError):
    """The file is at fault; the message is a sentence."""


class FileIsThere(CannotWrite):
    """It exists, and replacing it was not asked for."""


async def export(api: Api, asked: Asked, tell: Callable[[Progress], None]) -> Progress:
    """Write the list as it is now; `tell` after each page. Raises ClientError; cancelled, nothing is left.

    The rows go to a file beside the wanted one, which takes its name at the end: 0600, and never over a
    file that is there unless `replace`.
    """
    try:
        if asked.file.is_dir():
            raise CannotWrite(f"{asked.file.name} is a folder.")
        if not asked.replace and asked.file.exists():
            raise FileIsThere(f"{asked.file.name} is there already.")
        draft = _Draft(asked.file, asked.format)
    except OSError as error:
        raise CannotWrite(f"Cannot write there: {error.strerror}.") from None
    try:
        progress = await _write_pages(api, asked, draft, tell)
        await _in_thread(draft.seal)
        draft.take_name(asked.replace)
        return progress
    except FileExistsError:
        raise FileIsThere(f"{asked.file.name} is there already.") from None
    except OSError as error:
        raise CannotWrite(f"Cannot write on: {error.strerror}.") from None
    finally:
        draft.discard()


async def _in_thread(step: Callable[..., None], *arguments: object) -> None:
    """A step that blocks. A thread cannot be stopped, so one that is cancelled is waited for: nothing is
    cleaned up while it still writes."""
    running = asyncio.ensure_future(asyncio.to_thread(step, *arguments))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


async def _write_pages(api: Api, asked: Asked, draft: _Draft, tell: Callable[[Progress], None]) -> Progress:
    rows, cursor, first = 0, None, True
    met: set[str | None] = set()
    while first or cursor is not None:
        first = False
        want = Want(0, "page", 0, cursor, met=met)
        page = await fetch_page(api, asked.path, asked.paging, asked.filters, want, asked.part)
        await _in_thread(draft.add, await _with_currencies(api, asked.names, page.rows))
        rows += len(page.rows)
        tell(Progress(rows, page.total))
        met.add(cursor)
        cursor = page.older
    return Progress(rows, rows)


async def _with_currencies(api: Api, names: AccountNames, rows: Sequence[Record]) -> list[Record]:
    """The rows, with their account's `currency` after an `amount` that goes without: it says no unit."""
    bare = [row for row in rows if "amount" in row and "account" in row and "currency" not in row]
    for account_id in names.unknown(row["account"] for row in bare):
        await learn_account(api, names, account_id)
    without = {id(row) for row in bare}
    return [_with_currency(row, names) if id(row) in without else row for row in rows]


def _with_currency(row: Record, names: AccountNames) -> Record:
    currency = names.currency(row["account"])
    told: Record = {}
    for name, value in row.items():
        told[name] = value
        if name == "amount":
            told["currency"] = currency
    return told


class _Draft:
    """The file while it is being written. To `add` and to `seal` may take long; the rest is done at once, so
    that nothing is cancelled half way through it."""

    def __init__(self, file: Path, format_: Format) -> None:
        self._file = file
        self._format = format_
        self._columns: list[str] = []
        self._path, self._stream = self._new()

    def _new(self) -> tuple[Path, TextIO]:
        descriptor, name = tempfile.mkstemp(dir=self._file.parent, prefix=f".{self._file.name}.")  # 0600
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
        """Begin, or begin again with more columns: a later page has fields the first had not."""
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
        """All is on the disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()

    def take_name(self, replace: bool) -> None:
        """Take the wanted name. Raises FileExistsError where it was taken meanwhile."""
        if replace:
            os.replace(self._path, self._file)
            return
        try:
            os.link(self._path, self._file)  # a rename would replace
        except FileExistsError:
            raise
        except OSError:  # no hard links there: the name is taken with an empty file, and that replaced
            os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            try:
                os.replace(self._path, self._file)
            except OSError:
                self._file.unlink()
                raise

    def discard(self) -> None:
        """Leave nothing but what was finished."""
        with suppress(OSError):  # a full disk: what it could not hold is thrown away anyway
            self._stream.close()
        self._path.unlink(missing_ok=True)
