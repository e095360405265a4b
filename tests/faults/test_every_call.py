"""`backup`, `restore` and `recover` killed or failed at one of their calls of the system: nothing is lost.

A short run tries a few of the calls, drawn by `--seed`; with `--soak 100` it is killed at all of them.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger_engine.database.backup import look
from ledger_engine.database.engine import open_engine
from ledger_engine.upkeep import audit, backups
from tests.faults.test_storage import STRACE, can_trace
from tests.ledger_engine.upkeep.test_backups import post

OF_THE_FORMER, OF_THE_BACKUP = 30, 10
CALLS = (
    "openat,rename,renameat2,link,unlink,unlinkat,rmdir,mkdir,fsync,fdatasync,ftruncate,pwrite64,write,"
    "sendfile,copy_file_range,fcntl,flock,close"
)
HARM = ["signal=SIGKILL", "error=EIO", "error=ENOSPC", "error=EMFILE"]
SHORT = 4  # calls of each command


@dataclass(frozen=True)
class Command:
    """Its two words, of which one is a file, what is there before, and what must be right after it."""

    words: tuple[str, str]
    prepare: Callable[[Path], None]
    check: Callable[[Path], None]


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
    report = look(file, audit.verify)
    assert report.fault is None, report.fault
    return report.transactions


def check_restore(folder: Path) -> None:
    ledger = folder / "ledger.db"
    asyncio.run(post(ledger, 1))
    now = postings(ledger) - 1
    assert now in (OF_THE_FORMER, OF_THE_BACKUP)
    kept = list(folder.glob("ledger.before-restore-*.db"))
    assert kept or now == OF_THE_FORMER, "the former ledger is gone"
    for file in kept:
        assert postings(file) == OF_THE_FORMER


def check_backup(folder: Path) -> None:
    assert postings(folder / "ledger.db") == OF_THE_FORMER
    if (folder / "new.db").exists():
        assert postings(folder / "new.db") == OF_THE_FORMER


def lose_file(folder: Path) -> None:
    (folder / "ledger.db").unlink()


def check_recover(folder: Path) -> None:
    assert not (folder / "ledger.db").exists()
    log = folder / "ledger.db-wal"
    before = folder / "log before"
    assert log.read_bytes() == before.read_bytes()
    if (folder / "new.db").exists():
        assert postings(folder / "new.db") == OF_THE_FORMER


COMMANDS = {
    "restore": Command(("restore", "backup.db"), lambda _: None, check_restore),
    "backup": Command(("backup", "new.db"), lambda _: None, check_backup),
    "recover": Command(("recover", "new.db"), lose_file, check_recover),
}


def run(folder: Path, words: tuple[str, str], *strace: str) -> subprocess.CompletedProcess[str]:
    command, file = words
    ledger = str(folder / "ledger.db")
    line = [sys.executable, "-m", "ledger_engine", command, str(folder / file), "--database", ledger]
    if strace:
        line = [STRACE or "", "-f", "-qq", *strace, *line]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)


def places(folder: Path, words: tuple[str, str]) -> list[tuple[str, int, str]]:
    """Every call that has to do with the folder, with each harm.

    Its name, and which one it is among those of its thread. `strace` harms the first thread that comes so
    far: where that may be the first one while it imports, the call is not made to fail.
    """
    trace = folder.with_name("trace")
    assert run(folder, words, "-y", "-e", f"trace={CALLS}", "-o", str(trace)).returncode == 0
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[tuple[str, int, str], None] = {}
    first = ""
    for line in trace.read_text().splitlines():
        match = re.match(r"(\d+) +(\w+)\((.*)", line)
        if match is None:
            continue
        thread, call, rest = match.groups()
        first = first or thread
        counts[thread, call] += 1
        if str(folder) in rest.replace("AT_FDCWD<", ""):
            imported = thread != first and call in ("openat", "close")
            for harm in HARM[:1] if imported else HARM:
                found[call, counts[thread, call], harm] = None
    return list(found)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_or_fails_at_any_call_loses_nothing(
    name: str, made: Path, tmp_path: Path, soak: int, seed: int
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

    every = places(fresh("all"), command.words)
    chance = random.Random(seed)
    tried = chance.sample(every, min(len(every), SHORT * soak))
    if soak >= 100:
        kills = [place for place in every if place[2] == HARM[0]]
        often = Counter(call for call, _, _ in kills)
        # The calls of which there are few first: a fault shows there sooner than in the many writes.
        tried = sorted(kills, key=lambda place: (often[place[0]], place)) + tried
    outcomes: Counter[str] = Counter()
    for number, (call, n, harm) in enumerate(tried):
        folder = fresh(str(number))
        inject = ("-e", f"trace={call}", "-e", f"inject={call}:{harm}:when={n}", "-o", "/dev/null")
        done = run(folder, command.words, *inject)
        where = f"{call} {n} {harm}: {done.stderr}"
        if harm.startswith("error"):
            assert "Traceback" not in done.stderr, where
            assert "in use" not in done.stderr, where
            assert done.returncode == 0 or len(done.stderr.strip().splitlines()) == 1, where
        else:
            assert done.returncode != 0, f"{where} was not killed"
        outcomes[f"{harm} {done.returncode}"] += 1
        for file in folder.rglob("*"):
            assert not file.is_file() or file.stat().st_nlink == 1, f"{where}: {file}"
        try:
            command.check(folder)
        except BaseException as error:
            raise AssertionError(where) from error
        if harm == "signal=SIGKILL":
            (folder / "new.db").unlink(missing_ok=True)
            again = run(folder, command.words)
            assert again.returncode == 0, f"{where}: {again.stderr}"
            assert list(folder.glob(".ledger-part-*")) == [], where
        shutil.rmtree(folder.parent)
        print(f"{name} {number + 1} of {len(tried)}: {where}", flush=True)
    print(f"{name}: {len(tried)} of {len(every)} tried, {dict(outcomes)}")
