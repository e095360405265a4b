"""The PostgreSQL server of a run of tests ends with the last process that uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ledger_engine.waiting import wait_until
from tests.postgres_cluster import WATCHER

pytestmark = pytest.mark.process

# Holds the lock until it is killed, as a process of the tests does.
USER = """
import fcntl, sys, time
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_SH)
print("uses it", flush=True)
time.sleep(600)
"""


def test_when_its_users_are_killed_the_server_is_stopped_and_its_folder_removed(tmp_path: Path) -> None:
    folder, users, stopped = (tmp_path / each for each in ("server", "server.users", "stopped"))
    folder.mkdir()
    pg_ctl = tmp_path / "pg_ctl"
    pg_ctl.write_text(f'#!/bin/sh\necho "$@" > {stopped}\n', encoding="utf-8")
    pg_ctl.chmod(0o755)
    words = [sys.executable, "-I", "-S", "-c", USER, str(users)]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
    words = [sys.executable, "-I", "-S", str(WATCHER), str(users), str(folder), str(pg_ctl), ""]
    with subprocess.Popen(words) as watcher:
        processes[0].kill()
        processes[0].wait()
        assert watcher.poll() is None
        assert folder.exists()
        processes[1].kill()
        processes[1].wait()
        wait_until(lambda: not users.exists())
    assert not folder.exists()
    assert stopped.read_text(encoding="utf-8").split() == [
        "-D",
        f"{folder}/data",
        "-m",
        "immediate",
        "-w",
        "stop",
    ]
