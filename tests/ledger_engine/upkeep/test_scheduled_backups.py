"""Backups that the server makes by itself: when they are made, which are kept, and what a failure changes."""

from __future__ import annotations

import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from ledger_engine.store.engine import Engine
from ledger_engine.store.sqlite import backup
from ledger_engine.upkeep import scheduled_backups
from ledger_engine.upkeep.metrics import Metrics
from ledger_engine.upkeep.scheduled_backups import ScheduledBackups
from ledger_engine.verify import audit
from tests.faults.server import Server
from tests.forking import run
from tests.ledger_engine.conftest import MakeKey
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.upkeep.test_metrics import scrape
from tests.ledger_engine.waiting import until, wait_until

pytestmark = pytest.mark.sqlite
NAMED = "ledger-20260921T{}Z.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "backups"
    made.mkdir()
    return made


@asynccontextmanager
async def running(
    engine: Engine, location: Path, folder: Path, every_s: float = 1000, keep: int = 24
) -> AsyncIterator[ScheduledBackups]:
    scheduled = ScheduledBackups(engine, location, folder, every_s, keep)
    scheduled.start()
    try:
        yield scheduled
    finally:
        await scheduled.stop()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled_backups, "FIRST_AFTER_S", 0)
    monkeypatch.setattr(scheduled_backups, "RETRY_S", 0.01)


@pytest.mark.process
async def test_a_backup_is_made_beside_the_server_and_the_oldest_are_removed(
    engine: Engine, location: Path, folder: Path, make_key: MakeKey
) -> None:
    await make_key()
    names = [NAMED.format(f"1200{number:02}") for number in range(3)]
    others = ["ledger-20260921.db", "other-20260921T120000Z.db", "ledger-20269999T120000Z.db"]
    for name in [*names, *others]:
        (folder / name).write_text("")
    async with running(engine, location, folder, keep=3) as scheduled:
        await until(lambda: not (folder / names[0]).exists())
        assert engine.notice is None
        made = folder / NAMED.format("141320")
        assert {file.name for file in folder.iterdir()} == {*names[1:], *others, made.name}
        assert (made.stat().st_mode & 0o777, made.stat().st_size) == (0o600, scheduled.bytes)
        assert backup.read_copy(made, audit.verify).fault is None
        found = await scrape(Metrics(engine, scheduled))
        assert found["ledger_backup_last_timestamp_seconds"] == 1_790_000_000
        assert found["ledger_backup_bytes"] == scheduled.bytes
        assert found["ledger_backup_failures_total"] == 0
        assert found["ledger_backup_duration_seconds"] > 0


@pytest.mark.process
async def test_while_there_are_fewer_than_to_keep_none_is_removed(
    engine: Engine, location: Path, folder: Path
) -> None:
    for number in range(3):
        (folder / NAMED.format(f"12000{number}")).write_text("")
    async with running(engine, location, folder, keep=5) as scheduled:
        await until(lambda: scheduled.bytes)
        await until(lambda: len([*folder.glob("ledger-*.db")]) == 4)


@pytest.mark.process
async def test_a_failure_is_said_until_a_backup_succeeds_and_serving_goes_on(
    engine: Engine, location: Path, folder: Path, make_key: MakeKey, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / NAMED.format("120000")).write_text("")
    async with running(engine, location, folder, every_s=1) as scheduled:
        aside = folder.rename(folder.with_name("aside"))
        await until(lambda: scheduled.failures)
        said = f"There is no folder {folder}."
        assert engine.notice == (
            f"The last backup failed, and the newest is from 2026-09-21T12:00:00.000Z: {said}"
        )
        assert f"the backup failed: {said}" in caplog.messages
        await make_key()
        aside.rename(folder)
        await until(lambda: engine.notice is None)
    assert (folder / NAMED.format("141320")).exists()


@pytest.mark.process
async def test_a_backup_under_way_ends_with_the_server_and_leaves_nothing(
    engine: Engine, location: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    program = f"import time; open({str(begun)!r}, 'w').close(); time.sleep(1000)"
    monkeypatch.setattr(scheduled_backups, "_PROGRAM", program)
    async with running(engine, location, folder) as scheduled:
        await until(begun.exists)
    assert (list(folder.iterdir()), scheduled.failures) == ([], 0)


async def test_after_a_restart_the_next_backup_is_made_when_the_newest_is_old_enough(
    engine: Engine, location: Path, folder: Path, clock: ManualClock
) -> None:
    (folder / NAMED.format("141300")).write_text("")
    due = partial(ScheduledBackups, engine, location, folder, 60, 1)
    assert due()._due_in_s() == 40
    clock.advance(3_600_000)
    assert due()._due_in_s() < 0
    (folder / "ledger-20990101T000000Z.db").write_text("")
    assert due()._due_in_s() == 60, "a clock that was set back does not put it off for years"


@pytest.mark.process
def test_a_server_makes_backups_and_says_in_its_health_when_the_disk_is_full(
    folder: Path, tmp_path: Path
) -> None:
    constants = {f"{scheduled_backups.__name__}.{name}": 0.1 for name in ("FIRST_AFTER_S", "RETRY_S")}
    options = ("--backup-to", str(folder), "--backup-every", "1s", "--backup-keep", "2")
    server = Server(tmp_path / "served.db", options=options, constants=constants)
    server.start()

    def notice() -> str | None:
        answer = httpx.get(f"{server.url}/api/health", trust_env=False)
        assert answer.status_code == 200
        found: str | None = answer.json()["notice"]
        return found

    try:
        first: set[Path] = set()
        wait_until(lambda: first.update(folder.glob("served-*.db")) or len(first) > 2)
        limits = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (100_000, limits[1]))
        wait_until(lambda: "The last backup failed, and the newest is from 20" in (notice() or ""))
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, limits)
        wait_until(lambda: notice() is None)
        assert server.stop() == 0
    finally:
        server.kill()
    assert len([*folder.iterdir()]) == 2


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--backup-to", "none"), "--backup-to none cannot be written to: No such file or directory."),
        (("--backup-keep", "3"), "--backup-every and --backup-keep need --backup-to."),
        (("--backup-every", "5"), "'5' must be like 90s, 30m, 1h or 1d, and at most 30 days."),
        (
            ("--database", "postgresql://nobody@127.0.0.1:1/none", "--backup-to", "."),
            "--backup-to is for a SQLite file; use pg_dump for PostgreSQL, and run `ledger-engine verify` on"
            " the restored database.",
        ),
        (("--demo", "--backup-to", "."), "--demo deletes its data at the end; leave out --backup-to."),
    ],
)
def test_backups_that_cannot_be_made_are_refused_at_the_start(
    options: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_DATABASE", str(tmp_path / "ledger.db"))
    done = run(("serve", "--port", "0", *options), timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr
    assert not (tmp_path / "ledger.db").exists()
