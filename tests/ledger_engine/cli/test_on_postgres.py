"""The commands on a ledger in PostgreSQL; what each does has tests of its own, on a file."""

from __future__ import annotations

import asyncio
import json
import subprocess
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from ledger_engine.cli import main
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.store.engine import open_engine
from tests import auditing
from tests.commands import answer_of_command, run_command
from tests.postgres_cluster import programs
from tests.postgres_server import bare_database, emptied_database

pytestmark = pytest.mark.process


@pytest.fixture
def address() -> str:
    return emptied_database()


def test_every_command_of_administration_works(address: str) -> None:
    ask = partial(answer_of_command, address)
    project = ask("seed", "minimal")["project"]
    assert [each["id"] for each in ask("projects", "list")] == [project]
    ask("projects", "update", project, "--name", "Roastery")
    key = ask("keys", "create", "--mode", "test")["id"]
    ask("keys", "roll", key)
    ask("keys", "revoke", key)
    assert key in {each["id"] for each in ask("keys", "list", "--all")}
    assert ask("apps", "create", "Till", "--redirect-uri", "https://app.example/")["client_id"]
    hook = ask("webhooks", "create", "http://127.0.0.1:9/")["id"]
    ask("webhooks", "delete", hook)
    ask("webhooks", "restore", hook)
    assert ask("webhooks", "deliveries", hook) == []
    newest = ask("events", "list", "--limit", "1")[0]["id"]
    assert run_command(address, "events", "resend", newest).exit_code in (0, 1)
    password = run_command(
        address, "users", "set-password", "ada@example.com", "--password-stdin", stdin="long enough pw"
    )
    assert (password.exit_code, password.stderr) == (0, "")


async def test_verify_sees_one_state_beside_a_server_that_writes(address: str) -> None:
    project = (await asyncio.to_thread(answer_of_command, address, "seed", "minimal"))["project"]
    server = open_engine(address, serving=True)
    tenant, stopped = Tenant(project, livemode=False), asyncio.Event()
    account = await server.write(
        partial(accounts.create, tenant=tenant, new=accounts.NewAccount("Till", "EUR", {}))
    )
    new = transactions.NewTransaction(account.id, 5, "credit")
    posted = 0

    async def write() -> None:
        nonlocal posted
        while not stopped.is_set():
            await server.write(partial(transactions.post, tenant=tenant, new=new))
            posted += 1

    writing = [asyncio.create_task(write()) for _ in range(4)]
    try:
        counts = []
        for _ in range(3):
            before = posted
            report = await asyncio.to_thread(answer_of_command, address, "verify")
            assert report["ok"] is True
            counts.append(report["checked"]["transactions"])
            assert counts[-1] >= 16 + before
        assert counts == sorted(counts)
        assert posted > before
    finally:
        stopped.set()
        await asyncio.gather(*writing)
        await server.close()


def test_verify_names_the_first_wrong_row(address: str) -> None:
    answer_of_command(address, "seed", "minimal")

    async def spoil() -> None:
        engine = open_engine(address)
        await engine.write(lambda unit: unit.execute("UPDATE accounts SET balance = balance + 1"))
        assert (await engine.read(auditing.verify)).fault is not None
        await engine.close()

    asyncio.run(spoil())
    done = run_command(address, "verify")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["faults"][0]["object"].startswith("acc_")


def test_migrate_says_what_it_copied_and_where_from(tmp_path: Path) -> None:
    """The two commands of docs/postgresql.md."""
    source, address = tmp_path / "ledger.db", bare_database()
    answer_of_command(source, "seed", "minimal")
    done = CliRunner().invoke(main, ["migrate", str(source), address, "--json"])
    answer = json.loads(done.stdout)
    assert (done.exit_code, done.stderr) == (0, "")
    assert (answer["source"], answer["transactions"]) == (str(source), 16)
    assert answer["rows"] == sum(answer["tables"].values())
    back = CliRunner().invoke(main, ["migrate", address, str(tmp_path / "back.db")])
    assert back.stdout.startswith(f"{tmp_path / 'back.db'}: 2 accounts, 16 transactions, 2 invoices, ")
    assert back.stdout.endswith(" and verified.\n")
    again = CliRunner().invoke(main, ["migrate", address, str(tmp_path / "back.db")])
    assert (again.exit_code, again.stdout) == (1, "")
    assert "back.db already exists; name a new file." in again.stderr


@pytest.mark.parametrize("both", ["ledger.db", "postgresql://nobody@127.0.0.1:1/none"])
def test_migrate_needs_one_end_of_each_kind(both: str) -> None:
    done = CliRunner().invoke(main, ["migrate", both, both])
    assert done.exit_code == 2
    assert "must be a SQLite file and the other postgresql://" in done.stderr


def test_migrate_names_a_source_or_target_that_cannot_be_opened(tmp_path: Path) -> None:
    nowhere, missing = "postgresql://nobody:secret@127.0.0.1:1/none", str(tmp_path / "missing.db")
    for words, said in (([missing, nowhere], "there is no file"), ([nowhere, missing], "Connection refused")):
        done = CliRunner().invoke(main, ["migrate", *words])
        assert (done.exit_code, said in done.stderr, "secret" in done.stderr) == (1, True, False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["backup", "restore", "recover"])
def test_backups_are_refused_with_a_sentence_that_names_pg_dump(command: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = run_command("postgresql://nobody@127.0.0.1:1/none", command, str(file))
    assert done.exit_code == 2
    assert done.stderr.endswith(
        "`backup`, `restore` and `recover` are for SQLite files; use pg_dump and pg_restore for PostgreSQL,"
        " and run `ledger-engine verify` on the restored database.\n"
    )
    assert file.read_bytes() == b""


def test_a_database_restored_from_a_dump_verifies(tmp_path: Path) -> None:
    """The commands of docs/production-postgresql.md."""
    address, restored, dump = emptied_database(), bare_database(), str(tmp_path / "ledger.dump")
    answer_of_command(address, "seed", "minimal")
    for words in (
        [
            "pg_dump",
            "--format=custom",
            "--no-owner",
            "--no-privileges",
            f"--file={dump}",
            f"--dbname={address}",
        ],
        ["pg_restore", "--no-owner", "--no-privileges", "--single-transaction", f"--dbname={restored}", dump],
    ):
        subprocess.run([str(programs() / words[0]), *words[1:]], check=True)
    report = answer_of_command(restored, "verify")
    assert (report["ok"], report["checked"]["transactions"]) == (True, 16)
