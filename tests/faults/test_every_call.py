"""`backup`, `restore` and `recover` killed or failed at one of their calls of the system: nothing is lost.

A short run tries a few of the calls, drawn by `--seed`; with `--soak 100` all of them, and
says at the end which of them did harm.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger_engine.store.engine import open_engine
from ledger_engine.store.sqlite.backup import read_copy
from ledger_engine.upkeep import backups
from ledger_engine.verify import audit
from tests.conftest import Tally
from tests.faults.tracing import Tracer, can_trace
from tests.forking import Done
from tests.ledger_engine.upkeep.test_backups import post

OF_THE_FORMER, OF_THE_BACKUP = 30, 10
CALLS = (
    "openat,rename,renameat2,link,unlink,unlinkat,rmdir,mkdir,fsync,fdatasync,ftruncate,pwrite64,write,"
    "sendfile,copy_file_range,fcntl,flock,close"
)
KILL = "signal=SIGKILL"
HARM = [KILL, "error=EIO", "error=ENOSPC", "error=EMFILE"]
Point = tuple[str, int, str]
SHORT = 4  # calls of each command
NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Command:
    """Its name and the file it is given, what is there before, and what must be right after it."""

    name: str
    file: str
    prepare: Callable[[Path], None]
    check: Callable[[Path, Done], None]

    def words(self, folder: Path) -> list[str]:
        return [self.name, str(folder / self.file), "--database", str(folder / "ledger.db")]


def killed_copy(ledger: Path, folder: Path) -> None:
    """Copy a ledger that is open, as a kill would leave it: most of it is in its log."""
    for file in ledger.parent.glob(f"{ledger.name}*"):
        if not file.name.endswith((".lock", "-shm")):
            shutil.copy(file, folder / file.name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger as a kill leaves it, and the backup of an earlier moment."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("made")
    ledger = source / "ledger.db"

    async def fill() -> None:
        engine = open_engine(ledger, serving=True)
        await post(ledger, OF_THE_BACKUP)
        await asyncio.to_thread(backups.back_up, ledger, folder / "backup.db")
        await post(ledger, OF_THE_FORMER - OF_THE_BACKUP)
        killed_copy(ledger, folder)
        await engine.close()

    asyncio.run(fill())
    assert (folder / "ledger.db-wal").stat().st_size > 100_000
    return folder


def postings(file: Path) -> int:
    report = read_copy(file, audit.verify)
    assert report.fault is None, report.fault
    return report.transactions


def says_nothing_changed(done: Done) -> bool:
    return "Nothing was changed" in done.stderr


def check_restore(folder: Path, done: Done) -> None:
    ledger = folder / "ledger.db"
    now = postings(ledger)
    if done.returncode == 0:
        assert now == OF_THE_BACKUP, "it was not restored"
    if says_nothing_changed(done):
        assert now == OF_THE_FORMER, "it was changed"
    assert now in (OF_THE_FORMER, OF_THE_BACKUP)
    asyncio.run(post(ledger, 1))
    assert postings(ledger) == now + 1
    kept = list(folder.glob("ledger.before-restore-*.db"))
    assert kept or now == OF_THE_FORMER, "the former ledger is gone"
    for file in kept:
        assert postings(file) == OF_THE_FORMER


def check_new(folder: Path, done: Done) -> None:
    new = folder / "new.db"
    assert new.exists() or done.returncode != 0, "it was not made"
    assert not (new.exists() and says_nothing_changed(done)), "it was made"
    if new.exists():
        assert postings(new) == OF_THE_FORMER
        assert new.stat().st_mode & 0o777 == 0o600
        assert new.read_bytes()[18] == 1, "it does not say that it has no log"


def check_backup(folder: Path, done: Done) -> None:
    assert postings(folder / "ledger.db") == OF_THE_FORMER
    check_new(folder, done)


def lose_file(folder: Path) -> None:
    (folder / "ledger.db").unlink()


def check_recover(folder: Path, done: Done) -> None:
    assert not (folder / "ledger.db").exists()
    log = folder / "ledger.db-wal"
    before = folder / "log before"
    assert log.read_bytes() == before.read_bytes()
    check_new(folder, done)


COMMANDS = {
    "restore": Command("restore", "backup.db", lambda _: None, check_restore),
    "backup": Command("backup", "new.db", lambda _: None, check_backup),
    "recover": Command("recover", "new.db", lose_file, check_recover),
}


def points(tracer: Tracer, command: Command, folder: Path) -> list[Point]:
    """Every call that has to do with the folder, with each harm.

    Its name, and which one it is among those of its thread: strace harms the first thread that comes so far.
    """
    trace = folder.with_name("trace")
    done = tracer.run(command.words(folder), "-y", "-e", f"trace={CALLS}", "-o", str(trace))
    assert done.returncode == 0, done.stderr
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[Point, None] = {}
    for line in trace.read_text().splitlines():
        match = re.match(r"(\d+) +(\w+)\((.*)", line)
        if match is None:
            continue
        thread, call, rest = match.groups()
        counts[thread, call] += 1
        if str(folder) in rest.replace("AT_FDCWD<", ""):
            for harm in HARM:
                found[call, counts[thread, call], harm] = None
    return list(found)


def harm_once(tracer: Tracer, command: Command, folder: Path, point: Point) -> str:
    """Run the command, harmed at the point, and return its outcome; AssertionError tells what is wrong.

    Another run may open a file or two less, so that a point near the end is not reached.
    """
    call, n, harm = point
    trace = folder.with_name("harmed")
    inject = ("-e", f"trace={call}", "-e", f"inject={call}:{harm}:when={n}", "-o", str(trace))
    killed = harm == KILL
    done = tracer.run(command.words(folder), *inject)
    reached = done.returncode == -signal.SIGKILL if killed else "(INJECTED)" in trace.read_text()
    try:
        if not killed:
            assert "Traceback" not in done.stderr
            assert "in use" not in done.stderr
            assert "served" not in done.stderr
            assert done.returncode == 0 or len(done.stderr.strip().splitlines()) == 1
        for file in folder.rglob("*"):
            assert not file.is_file() or file.stat().st_nlink == 1, file
        command.check(folder, done)
        if not reached:
            assert done.returncode == 0, done.stderr
            return NOT_REACHED
        if killed:
            (folder / "new.db").unlink(missing_ok=True)
            again = tracer.run(command.words(folder))
            assert again.returncode == 0, again.stderr
            assert list(folder.glob(".ledger-part-*")) == []
    except BaseException as error:
        raise AssertionError(f"{call} {n} {harm} {done.returncode}: {error} {done.stderr}") from error
    return f"{call} {harm} {done.returncode}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_or_fails_at_any_call_loses_nothing(
    name: str, made: Path, tracer: Tracer, tmp_path: Path, soak: int, seed: int, tally: Tally
) -> None:
    if not can_trace():
        pytest.skip("needs strace and the right to trace")
    command = COMMANDS[name]

    def fresh(number: str) -> Path:
        folder = tmp_path / number / "data"
        shutil.copytree(made, folder)
        shutil.copy(folder / "ledger.db-wal", folder / "log before")
        command.prepare(folder)
        return folder

    every = points(tracer, command, fresh("all"))
    often = Counter(call for call, _, harm in every if harm == KILL)
    tried = random.Random(seed).sample(every, min(len(every), SHORT * soak if soak < 100 else len(every)))
    # The calls of which there are few first: a fault shows there sooner than in the many writes.
    tried.sort(key=lambda point: (point[2] != KILL, often[point[0]]))
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    for number, point in enumerate(tried):
        folder = fresh(str(number))
        try:
            outcomes[harm_once(tracer, command, folder, point)] += 1
        except AssertionError as error:
            wrong.append(str(error))
            print(f"{name} {number + 1} of {len(tried)}: {error}", flush=True)
        shutil.rmtree(folder.parent)
    kills = sum(harm == KILL for _, _, harm in tried)
    tally(kills=kills, faults=len(tried) - kills, not_reached=outcomes[NOT_REACHED])
    # The control: a command that has done its work on a ledger that lacks a posting is seen.
    folder = fresh("control")
    done = tracer.run(command.words(folder))
    result = folder / ("ledger.db" if name == "restore" else "new.db")
    with closing(sqlite3.connect(result)) as opened, opened:
        opened.execute("DELETE FROM transactions WHERE id = (SELECT max(id) FROM transactions)")
    with pytest.raises(AssertionError):
        command.check(folder, done)
    print(f"{name}: {len(tried)} of {len(every)} tried, {dict(sorted(outcomes.items()))}")
    assert outcomes[NOT_REACHED] <= max(1, len(tried) // 50)
    assert not wrong, f"{len(wrong)} of {len(tried)} wrong, first: {wrong[:10]}"
