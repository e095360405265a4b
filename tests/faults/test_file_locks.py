"""The server keeps SQLite's locks on its file, so that no command beside it takes the file for unused.

A process loses all POSIX locks that it has on a file with the first descriptor of it that it closes. So once
SQLite has opened the file, no code of ours opens it, its log or the log's index.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from ledger_engine.http.app import create_app
from ledger_engine.sandbox.routes import routes as helper_routes
from tests.faults.server import NO_LIMIT, PATIENCE_S, Server
from tests.forking import run
from tests.helped_server import ROOT
from tests.ledger_engine.http.test_access import TABLE, ask, furnish

# Runs `ledger-engine`, and notes who opens one of the ledger's files once SQLite has opened it. SQLite's own
# opening is no event of Python's, and neither is its closing.
WATCHED = """
import sys
from ledger_engine.cli import main

def watch(event, arguments, ledger=sys.argv[sys.argv.index("--database") + 1], connected=[]):
    if event == "sqlite3.connect" and ledger in str(arguments[0]):
        connected.append(True)
    elif event in ("open", "shutil.copyfile") and connected:
        import traceback
        if str(arguments[0]) in (ledger, ledger + "-wal", ledger + "-shm"):
            callers = " < ".join(each.name for each in reversed(traceback.extract_stack(limit=6)[:-1]))
            with open(ledger + ".opened", "a") as noted:
                print(arguments[0], callers, file=noted)

sys.addaudithook(watch)
main(sys.argv[1:])
"""


@pytest.fixture
def helped(tmp_path: Path) -> Iterator[Server]:
    """A server with test helpers on a new file."""
    server = Server(tmp_path / "ledger.db", options=["--test-helpers"])
    server.start()
    yield server
    server.kill()


def client_of(server: Server, key: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=PATIENCE_S)


def owners_key(server: Server) -> str:
    limits = ("--plan", "enterprise", "--rate-limit", NO_LIMIT, "--burst", NO_LIMIT)
    project = server.cli("projects", "create", "Locks", *limits)
    made = server.cli("keys", "create", "--project", project["id"], "--mode", "test", "--role", "owner")
    return str(made["key"])


def post(client: httpx.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def open_account(client: httpx.Client, name: str) -> None:
    post(client, "/v1/accounts", name=name, currency="EUR")


def names_in(ledger: Path) -> list[str]:
    with closing(sqlite3.connect(ledger)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM accounts ORDER BY name")]


def test_after_a_snapshot_commands_leave_the_log_alone_and_a_kill_loses_nothing(
    helped: Server, tmp_path: Path
) -> None:
    ledger, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    with client_of(helped, owners_key(helped)) as client:
        for name in "ab":
            open_account(client, name)
        post(client, f"{ROOT}/snapshots", name="first")
        inode = log.stat().st_ino
        for name, command in (("c", ["keys", "list"]), ("d", ["verify"]), ("e", ["backup", "kept.db"])):
            helped.cli(*[str(tmp_path / word) if word == "kept.db" else word for word in command])
            assert log.stat().st_ino == inode
            open_account(client, name)
    helped.kill()
    helped.assert_books_are_right()
    assert names_in(ledger) == list("abcde")


def test_after_snapshots_a_restore_and_a_reset_with_commands_beside_them_the_file_opens(
    helped: Server, tmp_path: Path
) -> None:
    with client_of(helped, owners_key(helped)) as client:
        open_account(client, "a")
        for name in ("first", "second"):
            post(client, f"{ROOT}/snapshots", name=name)
            helped.cli("keys", "list")
            open_account(client, name)
        post(client, f"{ROOT}/snapshots/second/restore")
        helped.cli("keys", "list")
        open_account(client, "b")
        post(client, f"{ROOT}/reset")
        helped.cli("keys", "list")
        open_account(client, "c")
    assert helped.stop() == 0
    helped.assert_books_are_right()
    assert names_in(tmp_path / "ledger.db") == ["c"]


async def test_no_operation_and_no_background_task_opens_the_file_beside_sqlite(tmp_path: Path) -> None:
    opened = tmp_path / "ledger.db.opened"
    server = Server(
        tmp_path / "ledger.db", options=["--test-helpers", "--metrics", "127.0.0.1:0"], program=WATCHED
    )
    server.start()
    try:
        key = owners_key(server)
        with client_of(server, key) as owner:
            await use_every_operation(server.url, key)
            use_every_helper(owner)
            for rule in create_app(Mock()).url_map.iter_rules():
                if "GET" in (rule.methods or ()) and not rule.arguments and f"GET {rule.rule}" not in TABLE:
                    assert owner.get(rule.rule).status_code < 500
    finally:
        stopped = server.stop()
    assert stopped == 0
    # The server's own lock is on the log, where SQLite has none, and is held to the end.
    assert [line.split()[:2] for line in opened.read_text().splitlines()] == [
        [f"{server.database}-wal", "hold_log"]
    ]


def test_no_command_opens_the_file_beside_sqlite(server: Server, tmp_path: Path) -> None:
    for words in (["verify"], ["keys", "list"], ["backup", str(tmp_path / "kept.db")]):
        done = run([*words, "--database", str(server.database)], timeout=PATIENCE_S, program=WATCHED)
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ledger.db.opened").exists()


async def use_every_operation(url: str, key: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        has = await furnish(client, key)
        for name in TABLE:
            answer = await ask(client, name, has, f"Bearer {key}")
            assert answer.status_code < 500, answer.text


def use_every_helper(owner: httpx.Client) -> None:
    """Use all that the test helpers offer; the clock goes on for longer than anything is kept."""
    fault = {"match": {"path": "/none"}, "action": {"status": 500}}
    used = set()
    for name, body in (
        ("GET /clock", None),
        ("POST /clock", {"advance": 40 * 86_400}),
        ("POST /snapshots", {"name": "kept"}),
        ("GET /snapshots", None),
        ("POST /events", {"type": "invoice.paid"}),
        ("POST /snapshots/<name>/restore", None),
        ("DELETE /snapshots/<name>", None),
        ("POST /faults", fault),
        ("GET /faults", None),
        ("DELETE /faults/<id>", None),
        ("DELETE /faults", None),
        ("POST /reset", None),
    ):
        method, path = name.split()
        where = ROOT + path.replace("<name>", "kept").replace("<id>", "none")
        answer = owner.request(method, where, json=body)
        assert answer.is_success or "<id>" in path, answer.text
        used.add(name)
    assert used == {f"{each.method} {each.path.removeprefix(ROOT)}" for each in helper_routes.operations}
