"""Continuous archiving of docs/postgresql.md: a test types its blocks and restores two states.

`pg_ctl` stands for systemd, and folders next to the cluster for those of Debian.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import answer_of_command
from tests.faults.postgres import Postgres
from tests.house.pages import ROOT, Block, blocks
from tests.ledger_engine.waiting import wait_until
from tests.postgres_cluster import programs
from tests.reader import Reader

PAGE = ROOT / "docs" / "postgresql.md"
MOMENT = "2026-11-28 09:30:00+00"

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
        words += ["-l", postgres.data / "log", "-w"]
        control.write_text(f'cd {postgres.folder}; {shlex.join(map(str, words))} "$1"\n')
        administrator = [*run_as, "env", f"PGHOST={postgres.sockets}", "PGUSER=postgres"]
        self.stands_for = {
            "-o postgres ": f"-o {postgres.user} " if postgres.user else "",
            "runuser -u postgres -- ": f"{shlex.join(administrator)} ",
            "systemctl restart postgresql@18-main": f"sh {control} restart",
            "systemctl stop postgresql@18-main": f"sh {control} stop",
            "systemctl start postgresql@18-main": f"sh {control} start",
            "postgresql://ledger@127.0.0.1/ledger": f"'{self.address}'",
            "/var/lib/postgresql/18/main": str(postgres.data),
            "/var/lib/postgresql/18/lost": str(postgres.folder / "lost"),
            "/opt/ledger-current/bin/": "",
            "/mnt/other": str(self.folder),
        }
        path = os.pathsep.join((str(programs()), os.defpath, "/usr/sbin"))
        environment = {"PATH": path, "LANG": "C.UTF-8"}
        self.reader = Reader(folder, environment, self.stands_for, seen={})
        self.archive, self.restore, self.choose, self.start = (
            next(block for block in blocks(PAGE) if text in block.text)
            for text in ("archive_mode", "restore_command", "recovery_target_action", "until runuser")
        )

    async def follow(self, *typed: Block) -> None:
        for block in typed:
            await asyncio.to_thread(self.reader.follow, block)

    def names(self) -> set[str]:
        return {project["name"] for project in answer_of_command(self.address, "projects", "list")}

    def wait_for_a_copy(self) -> None:
        """Wait until the archive has everything that was committed."""
        with self.postgres.connect() as connection:
            switched = "SELECT pg_walfile_name(pg_switch_wal())"
            (file,) = connection.execute(switched).fetchone() or ("",)
        wait_until(lambda: (self.folder / "wal" / file).exists())


@pytest.fixture
def archive(postgres: Postgres, tmp_path: Path) -> Iterator[Archive]:
    archive = Archive(postgres, tmp_path)
    yield archive
    archive.reader.leave()


@pytest.mark.parametrize("to_a_moment", [True, False])
async def test_the_archive_restores_a_moment_and_the_end(archive: Archive, to_a_moment: bool) -> None:
    answer_of_command(archive.address, "seed", "minimal")
    await archive.follow(archive.archive)
    answer_of_command(archive.address, "projects", "create", "Before")
    with archive.postgres.connect() as connection:
        (moment,) = connection.execute("SELECT clock_timestamp()::text").fetchone() or ("",)
    answer_of_command(archive.address, "projects", "create", "After")
    archive.wait_for_a_copy()

    archive.stands_for[MOMENT] = moment
    chosen = [archive.choose] if to_a_moment else []
    await archive.follow(archive.restore, *chosen, archive.start)
    assert {"Before", "After"} & archive.names() == ({"Before"} if to_a_moment else {"Before", "After"})
    assert answer_of_command(archive.address, "verify")["ok"] is True
    # The database takes changes again, and the archive copies them.
    answer_of_command(archive.address, "projects", "create", "Later")
    archive.wait_for_a_copy()
