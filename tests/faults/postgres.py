"""A PostgreSQL server that can be stopped and killed, and a proxy that can stop forwarding to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

from tests.ledger_engine.waiting import wait_until
from tests.postgres_cluster import PATIENCE_S, Cluster, watched

ROLE = "ledger"  # no superuser
# A killed server loses nothing that the system has, so nothing waits for the disk here; but a commit is only
# answered once it is written, as `synchronous_commit` is on.
_SETTINGS = "-c fsync=off -c full_page_writes=off -c jit=off -c max_connections=60 -c shared_buffers=64MB" + (
    # With these, transactions of books are serializable.
    " -c max_pred_locks_per_page=128 -c max_pred_locks_per_relation=10000"
    " -c max_pred_locks_per_transaction=1024"
)
_SOCKET = ".s.PGSQL.5432"


class Postgres(Cluster):
    """A cluster in a folder of its own, reached over a Unix socket; one database for each test.

    It is new, or a standby of another that gets each commit of that before it is answered.
    """

    def __init__(self, standby_of: Postgres | None = None) -> None:
        # Not in pytest's folder: the user that it runs as has to reach it.
        super().__init__(Path(tempfile.mkdtemp(prefix="ledger-faults-")), _SETTINGS)
        self._databases = 0
        self._watched = watched(self)
        if standby_of is None:
            self.make()
            self.start()
            with self.connect() as connection:
                connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        else:
            self.follow(standby_of)

    def follow(self, primary: Postgres) -> None:
        """Be a new standby of another, which from now on answers a commit when the standby has it."""
        if (self.data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.data)
        self.data.mkdir()
        self._copy(primary)
        self.start()
        with primary.connect() as connection:
            _set_awaited(connection, "*")
            is_awaited = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            wait_until(lambda: connection.execute(is_awaited).fetchone() == (1,))

    def promote(self) -> None:
        """Make a standby the one that is written to, and that waits for no other."""
        self.control("-w", "promote")
        self.wait_for_no_standby()

    def wait_for_no_standby(self) -> None:
        """Answer commits at once from now on."""
        with self.connect() as connection:
            _set_awaited(connection, "")

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop all of its processes meanwhile, as a machine that hangs does."""
        processes = self._processes()
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in processes:
                with contextlib.suppress(ProcessLookupError):  # it was killed
                    os.kill(each, signal.SIGCONT)

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Have it killed meanwhile."""
        self.stop("immediate")
        try:
            yield
        finally:
            self.start()

    def kill(self) -> None:
        """End all of its processes, stopped ones too, before they read what was sent to them."""
        processes = self._processes()
        for each in processes:
            os.kill(each, signal.SIGKILL)
        # Until then another start takes it for running.
        wait_until(lambda: not any(Path(f"/proc/{each}").exists() for each in processes))

    def remove(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.stop("immediate")
        shutil.rmtree(self.folder)
        self._watched.close()

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """Connect as the superuser."""
        return psycopg.connect(self.address(database, user="postgres"), autocommit=True)

    def address(self, database: str, *, user: str = ROLE, sockets: Path | None = None) -> str:
        return super().address(database, user=user, sockets=sockets)

    def new_database(self) -> str:
        """Return the name of a new database, which belongs to the role that is no superuser."""
        self._databases += 1
        name = f"ledger_{self._databases}"
        with self.connect() as connection:
            creation = sql.SQL("CREATE DATABASE {} OWNER {}")
            connection.execute(creation.format(sql.Identifier(name), sql.Identifier(ROLE)))
        return name

    def _processes(self) -> list[int]:
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        return [postmaster, *map(int, children)]

    def _copy(self, primary: Postgres) -> None:
        self.folder.chmod(0o755)
        self.sockets.chmod(0o777)
        if self.user is not None:
            shutil.chown(self.data, self.user)
        self.data.chmod(0o700)
        self.run("pg_basebackup", "-R", "-c", "fast", "-h", str(primary.sockets), "-U", "postgres")


def _set_awaited(connection: psycopg.Connection, standbys: str) -> None:
    connection.execute(sql.SQL("ALTER SYSTEM SET synchronous_standby_names = {}").format(standbys))
    connection.execute("SELECT pg_reload_conf()")


class Proxy:
    """Forwards connections to PostgreSQL in a thread; while `hold` is set it forwards nothing."""

    def __init__(self, postgres: Postgres) -> None:
        self.sockets = Path(tempfile.mkdtemp(prefix="ledger-proxy-"))
        self._target = str(postgres.sockets / _SOCKET)
        self._open = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    def hold(self) -> None:
        """Forward nothing any more, of any connection, and accept new ones that get no answer."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        shutil.rmtree(self.sockets)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._open.set()
        serving = asyncio.start_unix_server(self._forward, str(self.sockets / _SOCKET))
        server = self._loop.run_until_complete(serving)
        self._ready.set()
        self._loop.run_forever()
        server.close()
        forwarding = asyncio.all_tasks(self._loop)
        for task in forwarding:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*forwarding, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))  # in which the connections are closed
        self._loop.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer.transport):
            await self._open.wait()
            answers, onward = await asyncio.open_unix_connection(self._target)
            with contextlib.closing(onward.transport):
                copies = (self._copy(reader, onward), self._copy(answers, writer))
                await asyncio.gather(*copies, return_exceptions=True)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()
