"""Continuous archiving of docs/postgresql.md: a test types its blocks and restores two states.

`pg_ctl` stands for systemd, folders next to the cluster for those of Debian, and a script that runs the
command in a folder of its own for ssh.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import math
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.commands import answer_of_command
from tests.faults.postgres import Postgres
from tests.faults.server import Server
from tests.house.pages import ROOT, Block, blocks
from tests.ledger_engine.waiting import wait_until
from tests.postgres_cluster import programs
from tests.reader import Reader

PAGE = ROOT / "docs" / "postgresql.md"
PRODUCTION = ROOT / "docs" / "production-postgresql.md"
DEPLOY = ROOT / "deploy" / "postgres"
SEGMENT_BYTES = 16 * 2**20
NEWEST = "moment=now timeline=latest before=$moment"  # the first line of the block that restores
SSH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
[ "$1" = ledger@other.example ] && cd {folder} || exit 255
shift
if [ -e cut ]; then rm cut; head -c 100 | sh -c "$*"; exit 255; fi      # the connection is lost
exec sh -c "$*"
"""
# Stands for `sync`: `disk` gets the names that a folder would have after a power cut.
SYNC = """#!/bin/sh
if [ -d "$1" ]; then rm -rf "{disk}/$1"; ls "$1" > "{disk}/$1"; fi
exec {sync} "$1"
"""

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    postgres = Postgres()
    yield postgres
    postgres.remove()


class Archive:
    """The blocks of the page, and the reader who types them for a database of `postgres`."""

    def __init__(self, postgres: Postgres, folder: Path) -> None:
        self.postgres = postgres
        self.address = postgres.address(postgres.new_database())
        self.folder = postgres.folder / "other"
        control = folder / "control"
        run_as = ["runuser", "-u", postgres.user, "--"] if postgres.user else []
        words = [*run_as, programs() / "pg_ctl", "-D", postgres.data, "-o", postgres._options]
        words += ["-l", postgres.folder / "log", "-w"]
        control.write_text(f'cd {postgres.folder}; {shlex.join(map(str, words))} "$1"\n')
        administrator = [*run_as, "env", f"PGHOST={postgres.sockets}", "PGUSER=postgres"]
        self.stands_for = {
            "-o postgres ": f"-o {postgres.user} " if postgres.user else "",
            "runuser -u postgres -- ssh-keygen": "true",
            "ssh-copy-id": "true",
            "runuser -u postgres -- ": f"{shlex.join(administrator)} ",
            "systemctl restart postgresql@18-main": f"sh {control} restart",
            # PostgreSQL may have ended already, and may end at the start; the reader goes on.
            "systemctl stop postgresql@18-main": f"sh {control} stop || true",
            "systemctl start postgresql@18-main": f"sh {control} start || true",
            "systemctl is-active --quiet postgresql@18-main": f"sh {control} status > state",
            "postgresql://ledger@127.0.0.1/ledger": f"'{self.address}'",
            "/var/lib/postgresql/18/main": str(postgres.data),
            "/var/lib/postgresql/18/lost": str(postgres.folder / "lost"),
            "/var/log/postgresql/postgresql-18-main.log": str(postgres.folder / "log"),
            "/opt/ledger-current/bin/": "",
            "--mode live": "--mode test",
            "postgresql://ledger@127.0.0.1:5433/ledger": f"'{self.address}&port=5433'",
            "--port=5433 ": f"{postgres._options} --port=5433 ",
            "chown postgres ": f"chown {postgres.user} " if postgres.user else "true ",
            "/usr/lib/postgresql/18/bin/": f"{programs()}/",
            "/var/lib/postgresql/18/drill": f"{postgres.folder}/drill",
            "/etc/postgresql/18/main/": f"{postgres.data}/",
            "/etc/": f"{postgres.folder}/etc/",
            "/var/lib/postgresql/ledger-base": f"{postgres.folder}/home/ledger-base",
            "/var/lib/prometheus/node-exporter": str(folder),
            "systemctl reload prometheus": "true",
        }
        for name in ("etc/ledger", "etc/cron.d", "etc/prometheus", "bin", "home", "other", "disk"):
            (postgres.folder / name).mkdir(parents=True)
        (postgres.folder / "log").touch()
        shutil.copy(DEPLOY / "prometheus.yml", postgres.folder / "etc" / "prometheus")
        (postgres.folder / "etc" / "ledger" / "secrets.env").write_text("PGPASSWORD=unused\n")
        if postgres.user:
            for name in ("home", "other", "disk", "log"):
                shutil.chown(postgres.folder / name, postgres.user)
        bin_folder = postgres.folder / "bin"
        sync = SYNC.format(disk=postgres.folder / "disk", sync=shutil.which("sync"))
        for name, script in {"ssh": SSH.format(folder=self.folder), "sync": sync}.items():
            (bin_folder / name).write_text(script)
            (bin_folder / name).chmod(0o755)
        (folder / "deploy" / "postgres").mkdir(parents=True)
        for name in ("archive.sh", "drill.sh", "metrics.sh"):
            text = (DEPLOY / name).read_text(encoding="utf-8")
            for here, own in self.stands_for.items():
                text = text.replace(here, own)
            (folder / "deploy" / "postgres" / name).write_text(text)
        path = os.pathsep.join((str(bin_folder), str(programs()), os.defpath, "/usr/sbin"))
        environment = {"PATH": path, "LANG": "C.UTF-8"}
        in_environment = ["env", *(f"{name}={value}" for name, value in environment.items())]
        self.as_postgres = [*run_as, *in_environment]
        self.metrics = [*in_environment, "sh", str(folder / "deploy" / "postgres" / "metrics.sh")]
        self.reader = Reader(folder, environment, self.stands_for, seen={})
        self.connect, self.archive, self.drill, self.restore, self.start, self.check = (
            next(block for block in blocks(PAGE) if text in block.text)
            for text in (
                "ssh-keygen",
                "archive_command",
                "drill.sh",
                "restore_command = ",
                "systemctl start",
                "verify $with",
            )
        )

    def without_checkpoint(self) -> Block:
        """Return the last block as somebody types it who does not compare the checkpoint."""
        _, verify = self.check.text.split("\n", 1)
        return dataclasses.replace(self.check, text=f"with=\n{verify}")

    def again(self, line: str) -> Block:
        """Return a block with one line of the block about the archive."""
        assert f"\n{line}\n" in self.archive.text
        return dataclasses.replace(self.archive, text=line)

    def choose(self, moment: str, timeline: str = "", before: str = "$moment") -> None:
        """Let the reader change the first line of the block that restores."""
        timeline = timeline or ("latest" if moment == "now" else "current")
        self.stands_for[NEWEST] = f"moment='{moment}' timeline={timeline} before=\"{before}\""

    def create(self, name: str) -> str:
        """Create a project, and return a moment after it."""
        answer_of_command(self.address, "projects", "create", name)
        with self.postgres.connect() as connection:
            (moment,) = connection.execute("SELECT clock_timestamp()::text").fetchone() or ("",)
        return str(moment)

    async def follow(self, *typed: Block) -> None:
        for block in typed:
            await asyncio.to_thread(self.reader.follow, block)

    async def begin(self) -> None:
        """Archive a ledger that has a checkpoint."""
        answer_of_command(self.address, "seed", "minimal")
        await asyncio.to_thread(self.change)
        await self.follow(self.connect, self.archive)

    def waits_s(self) -> float:
        """Return the delay that metrics.sh writes for LedgerArchiveStops."""
        (value,) = self.values("ledger_archive_wait_seconds")
        return value

    def base_timestamp(self) -> float:
        """Return the time that metrics.sh writes for LedgerBaseOld."""
        (value,) = self.values("ledger_base_last_timestamp_seconds")
        return value

    def values(self, metric: str) -> list[float]:
        """Return the values of a metric that metrics.sh writes, one or none."""
        subprocess.run(self.metrics, check=True, stderr=subprocess.DEVNULL)
        written = (self.reader._folder / "ledger.prom").read_text()
        return [float(value) for value in re.findall(rf"(?m)^{metric} (\S+)$", written)]

    def last_failure(self) -> object:
        """Return the time that pg_stat_archiver has."""
        with self.postgres.connect() as connection:
            row = connection.execute("SELECT last_failed_time FROM pg_stat_archiver").fetchone()
        return row and row[0]

    def change(self) -> None:
        """Create an account on a server, and wait until the checkpoint covers the event of this."""
        server = Server(self.address)
        server.start()
        key = answer_of_command(self.address, "keys", "create", "--mode", "test")["key"]
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as client:
            account = client.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).raise_for_status()
            (event,) = client.get("/v1/events", params={"limit": 1}).raise_for_status().json()["data"]
            assert event["data"]["object"]["id"] == account.json()["id"]
            wait_until(lambda: client.get(f"/v1/events/{event['id']}/proof").status_code == 200)
        server.stop()

    def allow_connections(self, allowed: bool) -> None:
        """Let clients connect to the ledger's database, or end and refuse their connections."""
        name = str(psycopg.conninfo.conninfo_to_dict(self.address)["dbname"])
        with self.postgres.connect() as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}")

    def switch(self) -> str:
        """Finish a file of PostgreSQL's log, and return the file's name."""
        with self.postgres.connect() as connection:
            switched = "SELECT pg_walfile_name(pg_switch_wal())"
            (file,) = connection.execute(switched).fetchone() or ("",)
        return str(file)

    def names(self) -> set[str]:
        return {project["name"] for project in answer_of_command(self.address, "projects", "list")}

    def verified(self) -> str:
        """Return the line that `verify` has printed."""
        (line,) = re.findall("(?m)^The books are correct: .+$", self.reader._screen)
        return str(line)

    def names_after_a_power_cut(self, folder: str) -> list[str]:
        """Return the names that a power cut of the other machine would leave in a folder of the archive."""
        return (self.postgres.folder / "disk" / folder).read_text().split()

    def wait_for_a_copy(self) -> None:
        """Wait until the archive has everything that was committed."""
        file = self.switch()
        wait_until(lambda: (self.folder / "wal" / f"{file}.gz").exists())


@pytest.fixture
def archive(postgres: Postgres, tmp_path: Path) -> Iterator[Archive]:
    archive = Archive(postgres, tmp_path)
    yield archive
    archive.reader.leave()


async def test_a_copy_that_was_answered_survives_a_power_cut_of_the_other_machine(archive: Archive) -> None:
    answer_of_command(archive.address, "seed", "minimal")
    await archive.follow(archive.connect, archive.archive)
    file = archive.switch()
    with archive.postgres.connect() as connection:
        last = "SELECT last_archived_wal >= %s FROM pg_stat_archiver"
        await asyncio.to_thread(wait_until, lambda: connection.execute(last, [file]).fetchone() == (True,))
    wal, base = (sorted(file.name for file in (archive.folder / name).iterdir()) for name in ("wal", "base"))
    assert f"{file}.gz" in wal
    assert archive.names_after_a_power_cut("wal") == wal
    assert archive.names_after_a_power_cut("base") == base
    # The answer was lost before the folder was synced, so PostgreSQL repeats the copy.
    (archive.folder.with_name("disk") / "wal").unlink()
    script = archive.postgres.folder / "etc" / "ledger" / "archive.sh"
    written = archive.postgres.data / "pg_wal" / file
    words = [*archive.as_postgres, "bash", script, "wal", written, file]
    await asyncio.to_thread(subprocess.run, words, check=True)
    assert archive.names_after_a_power_cut("wal") == wal


@pytest.mark.parametrize("to_a_moment", [True, False])
async def test_the_archive_restores_a_moment_and_the_end(archive: Archive, to_a_moment: bool) -> None:
    await archive.begin()
    await asyncio.sleep(1)  # the moment's second begins after the base
    moment = archive.create("Before")
    archive.create("After")
    await asyncio.to_thread(archive.change)
    await asyncio.to_thread(archive.wait_for_a_copy)
    await archive.follow(archive.again("/etc/ledger/archive.sh checkpoint"))

    archive.choose(moment if to_a_moment else "now")
    await archive.follow(archive.restore, archive.start)
    if to_a_moment:
        with pytest.raises(AssertionError, match=r"the last \d+ were removed"):
            await archive.follow(archive.check)
        await archive.follow(archive.without_checkpoint())
    else:
        await archive.follow(archive.check)
    assert {"Before", "After"} & archive.names() == ({"Before"} if to_a_moment else {"Before", "After"})
    assert answer_of_command(archive.address, "verify")["ok"] is True
    # The database takes changes again, and the archive copies them.
    archive.create("Later")
    await asyncio.to_thread(archive.wait_for_a_copy)


async def test_restores_after_a_restore_follow_the_chosen_timeline(archive: Archive) -> None:
    await archive.begin()
    await asyncio.sleep(1)  # the moment's second begins after the base
    first, second = archive.create("A"), archive.create("B")
    archive.create("C")

    async def restore(moment: str, timeline: str, names: str, before: str = "$moment") -> None:
        archive.choose(moment, timeline, before)
        await archive.follow(archive.restore, archive.start, archive.without_checkpoint())
        assert archive.names() & set("ABCDEF") == set(names)

    await restore(first, "current", "A")
    await restore(second, "current", "AB")
    await restore("now", "current", "ABC")
    fourth = archive.create("D")
    archive.create("E")
    archive.choose(fourth)  # without the new base
    await archive.follow(archive.restore)
    with pytest.raises(AssertionError, match="recovery ended before configured recovery target was reached"):
        await archive.follow(archive.start)
    await restore(fourth, "latest", "ABCD")
    await archive.follow(archive.again("runuser -u postgres -- /etc/ledger/archive.sh base"))
    await asyncio.sleep(1)
    fifth = archive.create("F")
    archive.create("G")
    await restore(fifth, "current", "ABCDF")
    await restore("now", "latest", "ABCDF")
    await restore("now", "current", "ABC", before=first)  # the end before the restores, by the older base
    assert len(list((archive.folder / "base").iterdir())) == 2, "each base stays"
    lost = sorted(archive.postgres.folder.glob("lost-*"))
    assert len(lost) == 8, "each restore keeps the data that it replaces"
    assert all((folder / "global" / "pg_control").exists() for folder in lost)


async def test_after_two_restores_the_checkpoint_may_be_of_a_state_that_was_left(archive: Archive) -> None:
    await archive.begin()
    await asyncio.sleep(1)  # the moment's second begins after the base
    moment = archive.create("A")
    archive.create("B")
    await asyncio.to_thread(archive.wait_for_a_copy)
    archive.choose(moment, "current")
    await archive.follow(archive.restore, archive.start)
    await asyncio.to_thread(archive.change)
    await archive.follow(archive.again("/etc/ledger/archive.sh checkpoint"))
    await archive.follow(archive.restore, archive.start)  # the state before that change
    await asyncio.to_thread(archive.change)
    with pytest.raises(AssertionError, match="checkpoint does not match"):
        await archive.follow(archive.check)
    await archive.follow(archive.without_checkpoint())


async def test_a_restore_that_cannot_move_the_data_stops(archive: Archive) -> None:
    answer_of_command(archive.address, "seed", "minimal")
    await archive.follow(archive.connect, archive.archive)
    archive.choose("2026-01-01 00:00:00+00")
    with pytest.raises(AssertionError):
        await archive.follow(archive.restore)  # no base is older
    archive.stands_for["$(date +%s)"] = "taken/there"
    archive.choose("now", "latest")
    with pytest.raises(AssertionError, match="mv: cannot move"):
        await archive.follow(archive.restore)
    assert not (archive.postgres.data / "recovery.signal").exists()
    await archive.follow(archive.start)  # with the data that stayed


async def test_a_ledger_without_a_checkpoint_is_archived_and_restored(archive: Archive) -> None:
    answer_of_command(archive.address, "seed", "minimal")  # no server has signed a checkpoint
    await archive.follow(archive.connect, archive.archive)
    assert sorted(file.name for file in archive.folder.iterdir()) == ["base", "wal"]
    answer_of_command(archive.address, "projects", "create", "Later")
    await asyncio.to_thread(archive.wait_for_a_copy)
    await archive.follow(archive.restore, archive.start, archive.check)
    assert not (archive.reader._folder / "checkpoint").exists()
    assert "Later" in archive.names()


async def test_a_new_base_removes_what_is_older_than_three_weeks(archive: Archive) -> None:
    await archive.begin()
    kept = {file for folder in ("base", "wal") for file in (archive.folder / folder).iterdir()}
    ages_days = {"base/old": 19, "base/older": 22, "wal/older": 23}
    for name, days in ages_days.items():
        file = archive.folder / name
        file.touch()
        os.utime(file, (0, time.time() - days * 86_400))
        if archive.postgres.user:
            shutil.chown(file, archive.postgres.user)
    await archive.follow(archive.again("runuser -u postgres -- /etc/ledger/archive.sh base"))
    assert kept <= {file for folder in ("base", "wal") for file in (archive.folder / folder).iterdir()}
    assert [name for name in ages_days if (archive.folder / name).exists()] == ["base/old"]


async def test_the_delay_of_a_lost_copy_is_measured(archive: Archive) -> None:
    await archive.begin()
    await asyncio.to_thread(archive.wait_for_a_copy)
    await asyncio.to_thread(wait_until, lambda: archive.waits_s() == 0)
    wal = archive.folder / "wal"
    wal.rename(archive.folder / "lost")
    answer_of_command(archive.address, "projects", "create", "Lost")  # `switch` ends no file without a change
    file = archive.switch()
    for delay_s in (0, 2):
        await asyncio.to_thread(wait_until, lambda delay_s=delay_s: archive.waits_s() > delay_s)
    assert archive.last_failure() is not None
    # A connection is lost in the middle of a copy, which PostgreSQL repeats.
    (archive.folder / "cut").touch()
    (archive.folder / "lost").rename(wal)
    answer_of_command(archive.address, "projects", "create", "Next")
    archive.switch()  # otherwise PostgreSQL waits a minute after three failures
    await asyncio.to_thread(wait_until, lambda: archive.waits_s() == 0)
    assert not (archive.folder / "cut").exists()
    assert len(gzip.decompress((wal / f"{file}.gz").read_bytes())) == SEGMENT_BYTES


async def test_an_archive_that_is_off_or_not_measurable_has_an_infinite_delay(archive: Archive) -> None:
    assert not archive.values("ledger_archive_wait_seconds"), "nothing archives"
    await archive.follow(archive.connect)
    assert archive.waits_s() == math.inf, "archive_mode is off"
    archive.postgres.stop()
    assert archive.waits_s() == math.inf, "PostgreSQL does not answer"


async def test_the_time_of_the_newest_base_is_0_without_a_base_or_without_its_job(archive: Archive) -> None:
    answer_of_command(archive.address, "seed", "minimal")
    assert not archive.values("ledger_base_last_timestamp_seconds"), "nothing archives"
    await archive.follow(archive.connect)
    assert archive.base_timestamp() == 0
    begun = time.time()
    await archive.follow(archive.archive)
    first = archive.base_timestamp()
    assert int(begun) <= first <= time.time()
    jobs = archive.postgres.folder / "etc" / "cron.d" / "ledger-archive"
    _, checkpoint = lines = jobs.read_text().splitlines(keepends=True)
    jobs.write_text(checkpoint)
    assert archive.base_timestamp() == 0
    jobs.write_text("".join(lines))
    (archive.folder / "base").rename(archive.folder / "lost")
    with pytest.raises(AssertionError):
        await archive.follow(archive.again("runuser -u postgres -- /etc/ledger/archive.sh base"))
    assert archive.base_timestamp() == first, "a base that failed does not count"
    (archive.postgres.folder / "home" / "ledger-base").unlink()
    assert archive.base_timestamp() == 0


async def test_the_way_back_to_sqlite_ends_archiving_and_the_way_forward_begins_it_again(
    archive: Archive,
) -> None:
    await archive.begin()
    (back,) = (block for block in blocks(PRODUCTION) if "9464" in block.text)
    await archive.follow(back)
    copies = {file.name for file in (archive.folder / "wal").iterdir()}
    answer_of_command(archive.address, "projects", "create", "Later")
    file = archive.switch()
    with archive.postgres.connect() as connection:
        ready = "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'"
        assert connection.execute(ready).fetchone() == (0,), "nothing waits for the archive"
    assert {file.name for file in (archive.folder / "wal").iterdir()} == copies
    # The alerts of the way forward report that the archive is missing.
    assert (archive.waits_s(), archive.base_timestamp()) == (math.inf, 0)
    await archive.follow(archive.archive)
    assert archive.base_timestamp() > 0
    await asyncio.to_thread(archive.wait_for_a_copy)
    await asyncio.to_thread(wait_until, lambda: archive.waits_s() == 0)
    assert not (archive.folder / "wal" / f"{file}.gz").exists(), "the new base does not need it"


async def test_a_drill_restores_the_archive_next_to_the_ledger_and_writes_nothing_into_it(
    archive: Archive,
) -> None:
    await archive.begin()
    await asyncio.to_thread(archive.change)  # after the base
    await asyncio.to_thread(archive.wait_for_a_copy)
    (archive.folder / "base" / "new").touch()  # the beginning of a base that cron makes
    copies = {file for folder in ("base", "wal") for file in (archive.folder / folder).iterdir()}
    await archive.follow(archive.without_checkpoint())
    report = archive.verified()
    await asyncio.to_thread(archive.change)  # the archive does not have this change yet
    await archive.follow(archive.drill)
    assert archive.verified() == report
    assert {file for folder in ("base", "wal") for file in (archive.folder / folder).iterdir()} == copies
    assert not (archive.postgres.folder / "drill").exists()
    drill = archive.stands_for["postgresql://ledger@127.0.0.1:5433/ledger"].strip("'")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(drill)
    # If the restored ledger cannot be read, the drill ends too.
    archive.allow_connections(False)
    await asyncio.to_thread(archive.wait_for_a_copy)
    with pytest.raises(AssertionError, match="not currently accepting connections"):
        await archive.follow(archive.drill)
    assert not (archive.postgres.folder / "drill").exists()
    archive.allow_connections(True)
    await archive.follow(archive.without_checkpoint())
    assert archive.verified() != report
    await asyncio.to_thread(archive.wait_for_a_copy)
