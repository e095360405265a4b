"""Checks, before a database file is opened, that the file is complete and that its log belongs to the file.

The log of a file is SQLite's write-ahead log, which is stored next to the file. SQLite does not make these
checks. It deletes the log of an empty database, and applies any other log to any file that has the right
name. So each process calls this module before it opens a file.

A process must not call this module while it is connected to the file. A process that closes any descriptor of
a file loses all POSIX locks on the file, including SQLite's locks
(https://www.sqlite.org/howtocorrupt.html). Another process would then conclude that nobody uses the file, and
delete the log. The format of a log: https://www.sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from ledger_engine.core.errors import StorageUnavailable

# The magic number of a log, and the byte order of the 32-bit words that its checksums add up.
_WORDS = {0x377F0682: "<", 0x377F0683: ">"}
_LOG_HEADER = struct.Struct(">4I8s8s")  # magic, version, page size, checkpoints, salts, checksums
# Page number, size of the database in pages (0 unless the frame ends a transaction), salts, checksums.
_FRAME_HEADER = struct.Struct(">2I8s8s")
_FILE_HEADER_SIZE = 100
_SECTOR = 512  # bytes; a disk writes at least this much in one step
_LOCK_BYTE = 0x40000000  # SQLite never uses the page with this byte
_TRIES = 3  # attempts, because a server may write after we read the log and before we read the file


@dataclass(frozen=True, slots=True)
class WriteAheadLog:
    """The complete transactions in a log.

    `page_count` is the number of pages of the database after these transactions. `pages` are the numbers of
    the pages in the log. `frames` is the number of frames, each a copy of a page. Page 1 of the database file
    contains a change counter. `counters` are the lowest and the highest value that this counter can have if
    the log belongs to the file. If the log does not contain page 1, `counters` is None. `first_pages` are the
    copies of page 1 in the log, each without its first sector.
    """

    page_size: int
    page_count: int
    pages: frozenset[int]
    frames: int
    counters: tuple[int, int] | None
    first_pages: frozenset[bytes]

    def missing(self, size: int) -> int:
        """Return how many pages are neither in the log nor in a database file of `size` bytes."""
        lock_page = _LOCK_BYTE // self.page_size + 1
        beyond = range(size // self.page_size + 1, self.page_count + 1)
        return sum(page not in self.pages and page != lock_page for page in beyond)


def log_file(database: Path) -> Path:
    """Return the path of the log of `database`; a symbolic link is resolved."""
    database = database.resolve()
    return database.with_name(f"{database.name}-wal")


def read_log(database: Path, *, verified: bool = False) -> WriteAheadLog | None:
    """Return the content of the log of `database`; None if no log with a complete transaction exists.

    SQLite writes the log again from its beginning after a checkpoint; the salts distinguish the current
    frames from the old frames behind them. If a commit fails, for example because memory is short, SQLite
    writes the next transaction over the frames of the failed commit. If this transaction is shorter, the last
    frames of the failed commit remain. They have the current salts too, so only the checksums show that they
    are not valid. With `verified`, this checks the checksums as SQLite does, which takes about 0.1 s for
    4 MB.
    """
    try:
        file = log_file(database).open("rb", buffering=0)
    except FileNotFoundError:
        return None
    with file:
        return read_frames(file, verified=verified)


def read_frames(file: FileIO, *, verified: bool = False) -> WriteAheadLog | None:
    """Return the content of the log `file`, as `read_log` does. `file` must be at its beginning."""
    header = file.read(_LOG_HEADER.size)
    if len(header) < _LOG_HEADER.size:
        return None
    magic, _, page_size, _, salts, sums = _LOG_HEADER.unpack(header)
    if magic not in _WORDS or page_size < 512:
        return None
    return _read_frames(file, page_size, salts, _Checksums(_WORDS[magic], sums) if verified else None)


def require_reachable(file: Path) -> None:
    """Raise StorageUnavailable if the name leads to a folder, a pipe or another special file.

    Without this check, later errors would name the log instead of `file`, and a pipe would block the process.
    """
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise StorageUnavailable(f"{file} is not a regular file")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StorageUnavailable(f"{file}: {str(error.strerror).lower()}") from error


def require_own_log(database: Path) -> None:
    """Raise StorageUnavailable if SQLite would delete the log of `database`, or apply it to a wrong file.

    Raises the errors of `require_reachable`. Do not call this in a process that is connected to `database`,
    because it opens and closes the file.
    """
    require_reachable(database)
    require_file_of_log(database)
    reason = None
    for _ in range(_TRIES):
        log = read_log(database)
        reason = None if log is None else why_not_its_own(database, log)
        if reason is None:
            return
    raise _refusal(database, f"is not the file that its log was written for ({reason})")


def require_file_of_log(database: Path) -> None:
    """Raise StorageUnavailable if there is a log but its database file is missing or empty."""
    if _size(log_file(database)):
        size = _size(database)
        if not size:
            raise _refusal(database, "is missing" if size is None else "is empty")


def why_not_its_own(database: Path, log: WriteAheadLog) -> str | None:
    """Return why the log belongs to another file or to another state of this file.

    Return None if the log belongs to the file, or if the file cannot be read.
    """
    try:
        with database.open("rb", buffering=0) as file:
            first_page = file.read(log.page_size)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return None
    if difference(first_page, size, log) is None:
        return None
    valid = read_log(database, verified=True)
    return None if valid is None else difference(first_page, size, valid)


def difference(first_page: bytes, size: int, log: WriteAheadLog) -> str | None:
    """Return the result of `why_not_its_own` for a file of `size` bytes that begins with `first_page`."""
    header = first_page[:_FILE_HEADER_SIZE]
    if not header.startswith(b"SQLite format 3\0"):
        # A power cut may have damaged the first sector. SQLite then writes the sector again from the log, so
        # compare only the other sectors.
        if 1 in log.pages and first_page[_SECTOR:] in log.first_pages and not log.missing(size):
            return None
        return "it is not a SQLite database"
    page_size = int.from_bytes(header[16:18], "big")
    if (65536 if page_size == 1 else page_size) != log.page_size:
        return "its pages have a different size"
    if header[18] == 1:
        # SQLite marks a file as having a log before it creates the log. A backup is marked as having no log.
        return "it is a copy without a log, such as a backup"
    if missing := log.missing(size):
        return f"{missing:,} pages are neither in the file nor in the log"
    counter, page_count = int.from_bytes(header[24:28], "big"), int.from_bytes(header[28:32], "big")
    if log.counters is not None:
        same = log.counters[0] <= counter <= log.counters[1]
    else:
        # Page 1 stores the number of pages. The log does not contain page 1, so the number has not changed.
        same = page_count == log.page_count
    return None if same else "it was changed before the log began, or after it ended"


class _Checksums:
    """Checks the frames of a log in their order, because a checksum also covers all earlier frames."""

    def __init__(self, byte_order: str, of_header: bytes) -> None:
        self._byte_order = byte_order
        self._sums: tuple[int, int] = struct.unpack(">2I", of_header)

    def match(self, frame: bytes, page: bytes) -> bool:
        """Return whether the checksum in the frame's header is right for this header and page."""
        summed = frame[:8] + page
        words = struct.unpack(f"{self._byte_order}{len(summed) // 4}I", summed)
        first, second = self._sums
        for even, odd in zip(words[::2], words[1::2], strict=True):
            first = (first + even + second) & 0xFFFFFFFF
            second = (second + odd + first) & 0xFFFFFFFF
        self._sums = first, second
        return frame[16:] == struct.pack(">2I", first, second)


def _read_frames(
    file: FileIO, page_size: int, salts: bytes, checksums: _Checksums | None
) -> WriteAheadLog | None:
    pages: list[int] = []
    counters: list[int] = []
    first_pages: list[bytes] = []
    page_count = frames = 0
    size = os.fstat(file.fileno()).st_size
    while len(frame := file.read(_FRAME_HEADER.size)) == _FRAME_HEADER.size:
        page, pages_after, frame_salts, _ = _FRAME_HEADER.unpack(frame)
        if frame_salts != salts or page == 0 or file.tell() + page_size > size:
            break
        if page == 1 or checksums is not None:
            content = file.read(page_size)
        else:
            file.seek(page_size, os.SEEK_CUR)
        if checksums is not None and not checksums.match(frame, content):
            break
        pages.append(page)
        if page == 1:
            counters.append(int.from_bytes(content[24:28], "big"))
            first_pages.append(content[_SECTOR:])
        if pages_after:
            page_count, frames = pages_after, len(pages)
    if not frames:
        return None
    # Each write adds 1 to the counter. So as long as no checkpoint has copied page 1 from this log to the
    # file, the counter in the file can be 1 below the lowest counter in the log.
    bounds = (min(counters) - 1, max(counters)) if counters else None
    return WriteAheadLog(
        page_size, page_count, frozenset(pages[:frames]), frames, bounds, frozenset(first_pages)
    )


def _refusal(database: Path, what: str) -> StorageUnavailable:
    log = log_file(database)
    return StorageUnavailable(
        f"{database.name} {what}, and opening it would lose the changes in {log.name}."
        " `ledger-engine recover FILE` writes them to a new file, and `ledger-engine restore FILE` puts that"
        " file in place"
    )


def _size(file: Path) -> int | None:
    try:
        return os.stat(file).st_size
    except OSError:
        return None
