"""`ledger-engine status` next to a server that runs, hangs, was stopped or was killed."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ledger_engine import __version__
from ledger_engine.access.api_keys import ApiKey
from ledger_engine.cli import main, status
from ledger_engine.cli.status import BackupsStatus, LedgerContent, LedgerStatus, ServerStatus
from ledger_engine.core.ids import ApiKeyId
from ledger_engine.core.records import Moment
from ledger_engine.core.settings import Location
from ledger_engine.log.stored import SealState
from ledger_engine.store.sqlite.lock import LockHolder, lock_file
from tests.faults.server import Server
from tests.ledger_engine.cli.conftest import only_line
from tests.locations import execute, place_of_its_own
from tests.postgres_server import emptied_database
from tests.test_pages import free_port

pytestmark = pytest.mark.process
NOW = 1_790_000_000_000
HOUR = 3_600_000


def show(*words: str, exit_code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["status", *words])
    assert done.exit_code == exit_code, (done.output, done.exception)
    return done


def state_of(database: Location, *words: str) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(show("--database", str(database), "--json", *words).stdout)
    return state


def screen_of(database: Location, *words: str) -> dict[str, str]:
    """Return the texts of the screen by their labels."""
    texts, label = dict[str, str](), ""
    for line in show("--database", str(database), *words).stdout.splitlines():
        label = line[:10].strip() or label
        texts[label] = f"{texts.get(label, '')} {line[10:]}".strip()
    return texts


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(place_of_its_own("sqlite", tmp_path, "status"))
    running.start()
    yield running
    running.kill()


@pytest.mark.sqlite
def test_a_running_server_is_shown_with_its_address_version_and_start(server: Server) -> None:
    value = server.make_key()
    screen = screen_of(server.database)
    assert screen["Ledger"] == str(server.database)
    begins = f"at {server.url} by process {server.pid}, version {__version__}, since 20"
    assert screen["Served"].startswith(begins)
    assert screen["Health"] == f"{server.url} is healthy"
    assert screen["Notice"] == "none"
    assert screen["Keys"].startswith("2 test: key_")  # which has no name
    assert screen["Keys"].endswith(", first key")
    assert value not in show("--database", str(server.database)).stdout
    state = state_of(server.database)
    (one,) = state["servers"]
    assert (one["url"], one["pid"], one["version"], one["ok"]) == (server.url, server.pid, __version__, True)
    assert (state["killed"], state["failure"]) == (None, None)
    assert set(state["keys"][0]) == {"id", "name", "role", "livemode", "project"}


@pytest.mark.sqlite
def test_a_killed_server_is_not_taken_for_one_that_serves(server: Server) -> None:
    pid = server.pid
    server.kill()
    screen = screen_of(server.database)
    assert screen["Served"] == f"not served; the last server (process {pid}) was killed or crashed"
    assert screen["Notice"] == "unknown: no server was reached"
    state = state_of(server.database)
    assert (state["servers"], state["killed"]["pid"]) == ([], pid)


@pytest.mark.sqlite
def test_a_server_that_was_stopped_leaves_no_trace(server: Server) -> None:
    server.stop()
    assert screen_of(server.database)["Served"] == "not served"
    assert state_of(server.database)["killed"] is None


@pytest.mark.sqlite
def test_a_server_that_hangs_is_not_waited_for_long(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "ANSWER_SECONDS_MAX", 0.2)
    os.kill(server.pid, signal.SIGSTOP)
    screen = screen_of(server.database)
    assert screen["Served"].startswith(f"at {server.url}")
    assert screen["Health"] == f"{server.url} cannot be reached: the answer took more than 0 seconds."
    assert screen["Keys"] == "1 test: first key"


@pytest.mark.sqlite
def test_a_server_is_noticed_whose_lock_file_or_database_is_deleted(server: Server) -> None:
    assert isinstance(server.database, Path)
    lock_file(server.database).unlink()
    assert screen_of(server.database)["Served"] == "without an address of its own by a process"
    server.make_key()  # so that the log is not empty
    server.database.unlink()
    screen = screen_of(server.database)
    assert "It cannot be read: " in screen["Ledger"]
    assert (screen["Keys"], screen["Log"]) == ("unknown", "unknown")
    server.kill()
    assert "is missing" in only_line(show("--database", str(server.database), exit_code=1).stderr)


@pytest.mark.sqlite
def test_the_file_of_the_server_names_the_ledger_and_its_backups(tmp_path: Path, server: Server) -> None:
    config, folder = tmp_path / "ledger.toml", tmp_path / "backups"
    config.write_text(f'database = "{server.database}"\nbackup-to = "backups"\nport = 8700\n')
    assert json.loads(show("--config", str(config), "--json").stdout)["backups"]["failure"] is not None
    folder.mkdir()
    assert f"none in {folder}" in " ".join(show("--config", str(config)).stdout.split())
    for name in ("ledger-20260921T120000Z.db", "ledger-20260921T130000Z.db", "other.db"):
        (folder / name).touch()
    state = json.loads(show("--config", str(config), "--json").stdout)
    assert state["database"] == str(server.database)
    assert state["backups"] == {
        "folder": str(folder),
        "count": 2,
        "newest": "2026-09-21T13:00:00.000Z",
        "failure": None,
    }
    assert screen_of(server.database)["Backups"] == "unknown: name their folder with --backup-to or --config"
    config.write_text("prot = 8700\n")
    refusal = only_line(show("--config", str(config), exit_code=2).stderr)
    assert refusal.endswith("ledger.toml, line 1: prot is not an option of serve; is port meant?")


@pytest.mark.sqlite
def test_the_log_is_as_old_as_its_last_checkpoint(server: Server) -> None:
    assert server.cli("seed", "minimal")["project"]
    server.cli("verify", "--save", f"{server.database}.checkpoint")  # waits until the server has sealed it
    log = state_of(server.database)["log"]
    assert log["events"] > 0
    assert log["books_behind"] == 0
    assert screen_of(server.database)["Log"].startswith(f"the last checkpoint is of {log['sealed'][:19]}Z (")
    server.kill()
    server.cli("users", "create", "New", "new@example.com")
    assert "the newest events of 1 book are not sealed" in screen_of(server.database)["Log"]


def test_each_server_on_postgres_is_shown_and_a_silent_one_is_not_asked() -> None:
    address = emptied_database()
    servers = [Server(address), Server(address)]
    try:
        for server, port in zip(
            reversed(servers), sorted((free_port(), free_port()), reverse=True), strict=True
        ):
            server.options = ["--port", str(port)]
            server.start()
        first, second = state_of(address)["servers"]  # by address; the second one began first
        assert [first["url"], second["url"]] == [server.url for server in servers]
        for one in (first, second):
            assert (one["ok"], one["host"], one["version"]) == (True, socket.gethostname(), __version__)
            assert one["id"].startswith("srv_")
        servers[0].kill()
        execute(address, f"UPDATE servers SET beaten = beaten - {HOUR} WHERE id = '{first['id']}'")
        screen = screen_of(address)
        silence = f"at {first['url']} by {first['id']} on {first['host']}: silent for 60 minutes,"
        assert screen["Served"].startswith(f"{silence} so it has probably ended at {servers[1].url} by")
        assert screen["Health"] == f"{servers[1].url} is healthy"
        assert "PostgreSQL's own tools" in screen["Backups"]
        assert "password" not in screen["Ledger"]
        servers[1].stop()
        assert [one["id"] for one in state_of(address)["servers"]] == [first["id"]]
    finally:
        for server in servers:
            server.kill()


def test_a_server_on_postgres_whose_address_a_later_one_has_is_left_out() -> None:
    address = emptied_database()
    server = Server(address)
    try:
        server.start()
        (earlier,) = state_of(address)["servers"]
        server.kill()
        server.options = ["--port", str(server.port)]
        server.start()
        (later,) = state_of(address)["servers"]
        assert later["url"] == earlier["url"]
        assert later["id"] != earlier["id"]
    finally:
        server.kill()


def test_a_screen_of_long_names_fits_80_columns_and_shows_no_control_characters() -> None:
    keys = [
        ("prj_1", ApiKey(ApiKeyId(f"key_{number}"), name, "admin", None, "abcd", Moment(NOW), True, None))
        for number, name in enumerate(["店" * 255, "\x1b[31mred", None, *["a name of words"] * 20])
    ]
    notice = "The last backup failed, and the newest is from yesterday: No space left on device."
    state = LedgerStatus(
        "postgresql://ledger:secret@db.example/ledger",
        NOW,
        [
            ServerStatus(id="srv_1", url="http://a", host="db1", started=NOW - HOUR, ok=True, notice=notice),
            ServerStatus(id="srv_2", host="db2", version="1.0.0", started=NOW - 48 * HOUR),
            ServerStatus(
                id="srv_3", url="http://c", ok=False, failure="http://c cannot be reached: refused."
            ),
        ],
        None,
        LedgerContent(keys, SealState(NOW - 90_000, 1, 0), []),
        None,
        None,
    )
    lines = list(status._screen(state))
    assert max(map(status._width, lines)) <= 80
    text = "\n".join(lines)
    assert "secret" not in text
    assert "\x1b" not in text
    assert "No space left on device" in " ".join(text.split())
    assert "a server without an address was not asked" in text
    assert "and 11 more" in text
    assert "(90 seconds); 1 event sealed" in " ".join(text.split())
    assert "(2 days)" in text


@pytest.mark.sqlite
def test_a_killed_process_without_a_number_and_a_folder_that_fails_are_shown(tmp_path: Path) -> None:
    backups = BackupsStatus("/backups", failure="Permission denied")
    content = LedgerContent([], SealState(None, 0, 2), [])
    state = LedgerStatus(tmp_path / "ledger.db", NOW, [], LockHolder(False), content, None, backups)
    text = "\n".join(status._screen(state))
    assert "not served; the last server was killed or crashed" in text
    assert "/backups cannot be read: Permission denied" in text
    assert "no checkpoint yet; the newest events of 2 books are not sealed" in text


@pytest.mark.parametrize(
    ("notices", "shown"),
    [
        ([None, None], ["Notice    none"]),
        (["Backup failed.", "Backup failed."], ["Notice    Backup failed."]),
        (["Backup failed.", None], ["Notice    http://a: Backup failed."]),
        (
            ["It lacks 2.", "It lacks 3."],
            ["Notice    http://a: It lacks 2.", "          http://b: It lacks 3."],
        ),
    ],
)
def test_a_notice_names_its_server_if_the_other_server_does_not_have_it(
    notices: list[str | None], shown: list[str], tmp_path: Path
) -> None:
    servers = [
        ServerStatus(url=url, ok=True, notice=notice)
        for url, notice in zip(("http://a", "http://b"), notices, strict=True)
    ]
    state = LedgerStatus(tmp_path / "ledger.db", NOW, servers, None, None, "closed", None)
    lines = list(status._screen(state))
    assert lines[-len(shown) :] == shown
