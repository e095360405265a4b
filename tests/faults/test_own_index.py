"""Somebody adds a unique index to a table of the ledger, and it refuses a change."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import psycopg
import pytest

from ledger_engine.core.settings import Location
from tests.commands import run_command
from tests.faults.server import PATIENCE_S, Server
from tests.postgres_server import emptied_database

INDEX = "CREATE UNIQUE INDEX own_index ON transactions (description)"


def on_sqlite(folder: Path) -> Location:
    return folder / "ledger.db"


def on_postgres(_folder: Path) -> Location:
    return emptied_database()


def change(database: Location, statement: str) -> None:
    if isinstance(database, Path):
        with closing(sqlite3.connect(database)) as connection:
            connection.execute(statement)
    else:
        with psycopg.connect(database, autocommit=True) as other:
            other.execute(statement.encode())


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (on_sqlite, "UNIQUE constraint failed: transactions.description"),
        (on_postgres, 'duplicate key value violates unique constraint "own_index"'),
    ],
    ids=["sqlite", "postgres"],
)
async def test_a_posting_that_an_own_index_refuses_fails_alone_and_the_log_says_why(
    tmp_path: Path, place: Callable[[Path], Location], said: str
) -> None:
    log = tmp_path / "log"
    server = Server(await asyncio.to_thread(place, tmp_path), log=log)
    await asyncio.to_thread(server.start)
    change(server.database, INDEX)
    try:
        key = {"Authorization": f"Bearer {server.make_key()}"}
        async with httpx.AsyncClient(
            base_url=server.url, headers=key, trust_env=False, timeout=PATIENCE_S
        ) as client:
            made = await client.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
            body = {"account": made.json()["id"], "amount": 1, "type": "credit"}
            posted = [
                client.post("/v1/transactions", json={**body, "description": text}) for text in "aabcdefg"
            ]
            answers = await asyncio.gather(*posted)
        assert Counter(answer.status_code for answer in answers) == {201: 7, 500: 1}
        (failed,) = [answer.json()["error"]["message"] for answer in answers if answer.status_code == 500]
        lines = log.read_text().splitlines()
        (first,) = [number for number, line in enumerate(lines) if line.endswith(" failed")]
        assert lines[first].split()[-2] in failed  # the id of the request
        (last,) = [number for number, line in enumerate(lines) if line.endswith(said)]
        assert "`ledger-engine verify` names them" in lines[last + 1]
        verified = run_command(server.database, "verify")
        assert (verified.exit_code, "own_index" in verified.output) == (1, True)
    finally:
        server.kill()
        change(server.database, "DROP INDEX own_index")
    server.assert_books_are_right()
