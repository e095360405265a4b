"""A running server can no longer see the tables: requests are refused, and the log says why once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.faults.server import PATIENCE_S, Server
from tests.ledger_engine.waiting import wait_until
from tests.postgres_server import emptied_database

ROLE = f"blind_{os.getpid()}"
REASON = "its tables are missing, or the role may not see them"
REQUESTS = 70  # a stranger may send 60 a minute
# A task in the background fails many times meanwhile, and nothing is said twice within an hour.
CONSTANTS = {
    "ledger_engine.store.postgres.leases.RENEWS_EVERY_S": 0.05,
    "ledger_engine.core.logs.REPEATED_AFTER_S": 3600.0,
}
TILL = {"name": "Till", "currency": "EUR"}


@pytest.fixture
def administrator() -> Iterator[psycopg.Connection]:
    """Return a superuser's connection to a database that a role without other rights may use."""
    with psycopg.connect(emptied_database(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {ROLE} LOGIN".encode())
        for kind in ("TABLES", "SEQUENCES"):
            connection.execute(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO {ROLE}".encode())
        yield connection
        connection.execute(f"DROP OWNED BY {ROLE}; DROP ROLE {ROLE}".encode())


@contextmanager
def without_usage(administrator: psycopg.Connection) -> Iterator[None]:
    administrator.execute("REVOKE USAGE ON SCHEMA public FROM PUBLIC")
    try:
        yield
    finally:
        administrator.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")


@contextmanager
def in_another_schema(administrator: psycopg.Connection) -> Iterator[None]:
    """Have the tables in a schema that is not in the search path."""
    administrator.execute("ALTER SCHEMA public RENAME TO hidden")
    try:
        yield
    finally:
        administrator.execute("ALTER SCHEMA hidden RENAME TO public")


@pytest.mark.parametrize("hidden", [without_usage, in_another_schema])
def test_tables_that_cannot_be_seen_are_told_once_and_count_nobody_as_a_stranger(
    administrator: psycopg.Connection,
    tmp_path: Path,
    hidden: Callable[[psycopg.Connection], AbstractContextManager[None]],
) -> None:
    log = tmp_path / "log"
    address = emptied_database().replace("//postgres@", f"//{ROLE}@")
    server = Server(address, log=log, constants=CONSTANTS)
    server.start()
    try:
        key = {"Authorization": f"Bearer {server.make_key()}"}
        with httpx.Client(base_url=server.url, headers=key, trust_env=False, timeout=PATIENCE_S) as client:
            assert client.post("/v1/accounts", json=TILL).status_code == 201
            with hidden(administrator):
                wait_until(lambda: f"the leases of this server are not renewed: {REASON}" in log.read_text())
                answers = [client.get("/v1/accounts") for _ in range(REQUESTS)]
                answers += [client.post("/v1/accounts", json=TILL) for _ in range(REQUESTS)]
                assert Counter(answer.status_code for answer in answers) == {503: 2 * REQUESTS}
                assert all(REASON in answer.json()["error"]["message"] for answer in answers)
                health = client.get("/api/health")
                assert (health.status_code, REASON in health.json()["message"]) == (503, True)
            wait_until(lambda: client.get("/v1/accounts").status_code == 200)
            stranger = client.get("/v1/accounts", headers={"Authorization": "Bearer sk_test_nobody"})
            assert stranger.status_code == 401
            assert int(stranger.headers["X-RateLimit-Remaining"]) >= 58
    finally:
        server.kill()
    # Each of the tasks in the background says so once, and requests do not.
    told = Counter(line.partition(" ")[2] for line in log.read_text().splitlines() if REASON in line)
    assert max(told.values()) == 1
    assert not [line for line in told if "ledger_engine.http" in line]
