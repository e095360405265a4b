"""Checkpoints in files outside the ledger. An attacker who changes the ledger cannot change these files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from ledger_engine.core.errors import Conflict
from ledger_engine.core.tenant import mode_name
from ledger_engine.log import keys, stored
from ledger_engine.log.checkpoints import Checkpoint
from ledger_engine.log.entries import LoggedBook
from ledger_engine.log.notes import BadNote
from ledger_engine.store import Unit
from ledger_engine.store.files import write_private
from ledger_engine.verify.book import books_of
from ledger_engine.verify.sealed import KeptCheckpoint

Checkpoints: TypeAlias = Sequence[KeptCheckpoint]
_SIZE_MAX = 10_000_000  # bytes of a file that are read


class OtherLog(Exception):
    """A checkpoint belongs to no log of this ledger, or a file does not contain checkpoints."""


def read(file: Path) -> list[KeptCheckpoint]:
    """Return the checkpoints in a file. Raises OSError, and OtherLog if the file contains anything else."""
    with file.open("rb") as stream:
        text = stream.read(_SIZE_MAX).decode(errors="replace")
    try:
        return [KeptCheckpoint(str(file), Checkpoint.parse(note)) for note in _notes(text)]
    except BadNote as error:
        raise OtherLog(
            f"{file} is not a checkpoint as `ledger-engine checkpoint` prints it: {error}."
        ) from None


def _notes(text: str) -> list[str]:
    """Return the signed notes in a text. Each note ends with the lines of its signatures."""
    notes: list[str] = []
    is_complete = True
    for line in text.splitlines(keepends=True):
        signature = line.startswith("— ")
        if is_complete and not signature:
            notes.append("")
        is_complete = signature
        notes[-1:] = ["".join([*notes[-1:], line])]
    return notes or [""]


def waits_for_seal(unit: Unit) -> bool:
    """Return whether a server has made the log's key, but a book with events has no checkpoint yet."""
    return keys.current(unit) is not None and any(each.checkpoint is None for each in stored.behind(unit))


def save(unit: Unit, file: Path) -> None:
    """Write the last checkpoint of each log to a file that only its owner can read.

    Raises OSError, and Conflict if nothing is sealed yet.
    """
    notes = [str(each.require().note) for each in stored.every(unit)]
    if not notes:
        raise Conflict(
            "not_sealed_yet",
            "There is no checkpoint to save: a server signs the first one within a second after an event.",
        )
    write_private(file, "".join(notes))


def require_replaceable(file: Path) -> None:
    """Raise Conflict unless `save` may write this file.

    The folder of the file must exist. The file itself must be missing or empty, or contain checkpoints.
    """
    if not file.parent.is_dir():
        raise Conflict("not_recoverable", f"There is no folder {file.parent}.")
    if file.exists() and file.stat().st_size:
        try:
            read(file)
        except (OtherLog, OSError):
            raise Conflict(
                "not_recoverable", f"{file} exists and has no checkpoints; name another file."
            ) from None


def by_book(unit: Unit, checkpoints: Checkpoints) -> Mapping[LoggedBook, list[KeptCheckpoint]]:
    """Return the checkpoints by book. Raises OtherLog if a checkpoint belongs to no book of this ledger."""
    by_books: dict[LoggedBook, list[KeptCheckpoint]] = {}
    if not checkpoints:
        return by_books
    books = {f"{book.project}/{mode_name(book.livemode)}": book for book in books_of(unit)}
    for file in checkpoints:
        whose = "/".join(file.checkpoint.origin.split("/")[-2:])
        if whose not in books:
            raise OtherLog(
                f"{file.name} is a checkpoint of {file.checkpoint.origin}; this ledger contains no such log."
            )
        by_books.setdefault(books[whose], []).append(file)
    return by_books
