"""What is on a disk after the power is cut, at any moment, has all that was acknowledged.

A server's writes and syncs are recorded by strace. Each image has what was synced, and of what was written
since then some, in pieces of a sector.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledger_engine.store.sqlite.backup import read_copy
from ledger_engine.verify import audit
from tests.conftest import Tally
from tests.faults.client import Writers, open_accounts
from tests.faults.server import Server
from tests.faults.tracing import can_trace

SECTOR = 512
IMAGES = 50
OF_ONE_RECORDING = 5000
WHOLLY_CHECKED_EVERY = 20
POSTINGS = 80
_CALL = re.compile(r"(\d+) +(\w+)\((\d+)<([^>]*)>(?:, )?(.*)", re.DOTALL)
_RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass
class Disk:
    """What is on the disk for certain, what was written and not synced, and what was acknowledged so far."""

    files: dict[str, bytearray]
    written: list[tuple[str, int, bytes | None]] = field(default_factory=list)  # None: cut off there
    acknowledged: set[str] = field(default_factory=set)

    def sync(self, file: str, upto: int) -> None:
        """Put on the disk what was written to the file among the first `upto` writes."""
        kept = []
        for number, (name, at, data) in enumerate(self.written):
            if name == file and number < upto:
                _write(self.files.setdefault(name, bytearray()), at, data)
            else:
                kept.append((name, at, data))
        self.written[:] = kept

    def image(self, chance: random.Random) -> dict[str, bytes]:
        """Return the files after a cut of the power: some sectors of what was not synced are written."""
        files = {name: bytearray(data) for name, data in self.files.items()}
        share = chance.choice((0.0, 0.2, 0.5, 0.9, 1.0))
        for name, at, data in self.written:
            content = files.setdefault(name, bytearray())
            if data is None:
                if chance.random() < share:
                    _write(content, at, None)
                continue
            for start in range(0, len(data), SECTOR):
                if chance.random() < share:
                    _write(content, at + start, data[start : start + SECTOR])
        return {name: bytes(data) for name, data in files.items()}


def _write(content: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        content[:] = content[:at].ljust(at, b"\0")
        return
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


@dataclass(frozen=True)
class Call:
    """One call of the recorded server, on a file. A sync has two halves, the second `resumed`."""

    name: str
    thread: str
    file: str = ""
    at: int = 0
    data: bytes = b""
    unfinished: bool = False


def recorded(trace: Path) -> list[Call]:
    """Return the calls that strace has noted."""
    calls = []
    for line in trace.read_text(errors="replace").splitlines():
        resumed = _RESUMED.match(line)
        if resumed is not None:
            calls.append(Call("resumed", resumed[1]))
            continue
        call = _CALL.match(line)
        if call is None:
            continue
        thread, name, _, path, rest = call.groups()
        file = bytes.fromhex(path.replace("\\x", "")).decode(errors="replace")
        text = _TEXT.search(rest)
        data = b"" if text is None else bytes.fromhex(text[1].replace("\\x", ""))
        numbers = re.findall(r"\d+", rest.rpartition('"')[2].partition(")")[0])
        at = int(numbers[-1]) if name in ("pwrite64", "ftruncate") else 0
        calls.append(Call(name, thread, file, at, data, "unfinished" in rest))
    return calls


def replay(calls: Sequence[Call], ledger: Path, start: bytes, *, loses_syncs: bool = False) -> Iterator[Disk]:
    """Yield the disk after each call; without syncs as one that only says that it has synced."""
    own = (str(ledger), f"{ledger}-wal")
    disk = Disk({own[0]: bytearray(start)})
    syncing: dict[str, tuple[str, int]] = {}
    for call in calls:
        if call.name == "resumed":
            if call.thread in syncing and not loses_syncs:
                disk.sync(*syncing.pop(call.thread))
        elif call.name in ("sendto", "write", "sendmsg") and b"HTTP/1.1 201" in call.data:
            text = call.data.decode(errors="replace")
            disk.acknowledged.update(re.findall(r'"id":"(txn_\w+)"', text))
        elif call.file not in own:
            continue
        elif call.name in ("pwrite64", "ftruncate"):
            disk.written.append((call.file, call.at, None if call.name == "ftruncate" else call.data))
        elif call.unfinished:
            syncing[call.thread] = call.file, len(disk.written)
        elif not loses_syncs:
            disk.sync(call.file, len(disk.written))
        yield disk


def lost(image: dict[str, bytes], ledger: Path, acknowledged: set[str], *, wholly: bool) -> str | None:
    """Return what is wrong with an image, opened as after a start; None for nothing."""
    for name in (str(ledger), f"{ledger}-wal", f"{ledger}-shm"):
        Path(name).unlink(missing_ok=True)
    for name, data in image.items():
        Path(name).write_bytes(data)
    try:
        with closing(sqlite3.connect(ledger)) as opened:
            found = {id for (id,) in opened.execute("SELECT id FROM transactions")}
            sound = opened.execute("PRAGMA quick_check").fetchone()[0]
    except sqlite3.Error as error:
        return str(error)
    if not acknowledged <= found or sound != "ok":
        return f"{len(acknowledged - found)} of {len(acknowledged)} are lost; {sound}"
    if wholly and (fault := read_copy(ledger, audit.verify).fault) is not None:
        return fault.message
    return None


def images(
    record: Callable[[bool], Iterator[Disk]], count: int, chance: random.Random, *, loses_syncs: bool = False
) -> Iterator[tuple[dict[str, bytes], set[str]]]:
    """Yield so many images, each of a moment drawn by chance."""
    moments = sum(1 for _ in record(loses_syncs))
    drawn = Counter(chance.randrange(moments) for _ in range(count))
    for number, disk in enumerate(record(loses_syncs)):
        for _ in range(drawn[number]):
            yield disk.image(chance), set(disk.acknowledged)


@pytest.mark.process
@pytest.mark.timeout(3600)
async def test_whenever_the_power_is_cut_what_was_acknowledged_is_on_the_disk(
    tmp_path: Path, soak: int, seed: int, tally: Tally
) -> None:
    if not can_trace():
        pytest.skip("needs strace and the right to trace")
    for done in range(0, IMAGES * soak, OF_ONE_RECORDING):
        folder = tmp_path / str(done)
        folder.mkdir()
        await _cut(folder, min(OF_ONE_RECORDING, IMAGES * soak - done), seed + done, tally)
        shutil.rmtree(folder)


async def _cut(folder: Path, count: int, seed: int, tally: Tally) -> None:
    """Record a server, and look at so many images of its disk."""
    ledger, trace = folder / "ledger.db", folder / "trace"
    server = Server(ledger)
    server.start()
    key = server.make_key()
    accounts = await open_accounts(server.port, key)
    assert server.stop() == 0
    start = ledger.read_bytes()
    traced = "trace=pwrite64,ftruncate,fdatasync,fsync,sendto,sendmsg,write"
    server.strace = ["-y", "-xx", "-s", "100000", "-e", traced, "-o", str(trace)]
    server.start()
    writers = Writers(key, accounts, seed, lambda: server.port)
    async with writers.writing(4):
        await writers.until(POSTINGS)
    assert server.stop() == 0
    tally(recordings=1)

    calls = recorded(trace)

    def record(loses_syncs: bool) -> Iterator[Disk]:
        return replay(calls, ledger, start, loses_syncs=loses_syncs)

    chance = random.Random(seed)
    *_, last = record(False)
    assert len(last.acknowledged) >= POSTINGS
    for number, (image, acknowledged) in enumerate(images(record, count, chance)):
        wrong = lost(image, ledger, acknowledged, wholly=number % WHOLLY_CHECKED_EVERY == 0)
        assert wrong is None, f"image {number} of seed {seed}: {wrong}"
        tally(images=1)
    # The control: a disk that does not sync loses some, and that is seen.
    kept = [
        lost(image, ledger, known, wholly=False)
        for image, known in images(record, 20, chance, loses_syncs=True)
    ]
    assert any(kept), "lost syncs are not seen"
