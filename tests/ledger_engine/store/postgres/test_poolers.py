"""Behind PgBouncer: a session for each connection, or no start."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from ledger_engine.core.clock import SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import kept_time
from ledger_engine.store.engine import open_engine, open_snapshot, open_source
from tests.ledger_engine.waiting import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="PgBouncer is not installed"),
]
PORT = 6432  # in the name of a Unix socket
SHARED = (
    "a pooler in front of it, such as PgBouncer, shares sessions between connections; use its session mode"
    " (`pool_mode = session`). Nothing was changed."
)
Pooled = Callable[[str], str]


@pytest.fixture
def pooled(address: str, tmp_path: Path) -> Iterator[Pooled]:
    """Return a function that starts PgBouncer in a mode and returns the address through it."""
    parts = urlsplit(address)
    if "host" not in parse_qs(parts.query):
        pytest.skip("the server that TESTS_POSTGRES names is not reached over a Unix socket")
    started: list[subprocess.Popen[bytes]] = []

    def start(mode: str) -> str:
        (tmp_path / "users").write_text('"postgres" ""\n')
        (tmp_path / "ini").write_text(
            f"[databases]\n* = host={parse_qs(parts.query)['host'][0]}\n[pgbouncer]\npool_mode = {mode}\n"
            f"listen_port = {PORT}\nunix_socket_dir = {tmp_path}\nauth_type = trust\n"
            f"auth_file = {tmp_path / 'users'}\n"
        )
        user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        # PgBouncer refuses to be root. A folder above that all may write to must stay so: PostgreSQL has its
        # shared memory in /dev/shm, where the files of tests may be too.
        tmp_path.chmod(0o777)
        for folder in tmp_path.parents:
            mode = folder.stat().st_mode
            if not mode & stat.S_IXOTH:
                folder.chmod(mode | stat.S_IXOTH)
        started.append(subprocess.Popen(["pgbouncer", "-q", "-u", user, str(tmp_path / "ini")]))
        through = f"postgresql://postgres@{parts.path}?host={tmp_path}&port={PORT}"

        def answers() -> bool:
            try:
                psycopg.connect(through).close()
            except psycopg.OperationalError:
                return False
            return True

        wait_until(answers)
        return through

    yield start
    for each in started:
        each.kill()
        each.wait()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_server_does_not_start_if_transactions_share_sessions(pooled: Pooled, mode: str) -> None:
    address = pooled(mode)
    for opened in (
        lambda: open_engine(address, clock=SystemClock(), serving=True),
        lambda: open_snapshot(address, 2).__enter__(),
        lambda: open_source(address).__enter__(),
    ):
        with pytest.raises(StorageUnavailable) as refused:
            opened()
        assert str(refused.value).endswith(SHARED)


async def test_in_session_mode_a_server_runs(pooled: Pooled) -> None:
    engine = open_engine(pooled("session"), clock=SystemClock(), serving=True)
    try:
        await engine.write(kept_time.reach)
        await engine.check()
    finally:
        await engine.close()
