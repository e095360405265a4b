"""The dashboard's own server starts as a process, and ends with the dashboard, even if that is killed."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ledger_tui.app.application import LedgerApp
from ledger_tui.server import embedded
from ledger_tui.server.embedded import EmbeddedServer, ServerDied
from ledger_tui.settings.config import Options
from tests.ledger_tui.driving import PATIENCE_SECONDS, Driver, until

pytestmark = pytest.mark.process

STARTER = """
import json, sys, time
from ledger_tui.server.embedded import EmbeddedServer
server = EmbeddedServer(sys.argv[1])
print(json.dumps(server.start()), flush=True)
sys.stdin.read()
"""


def serves(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), 1).close()
    except OSError:
        return False
    return True


def test_it_serves_until_it_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_CERTFILE", "/for/another/server.pem")
    server = EmbeddedServer(str(tmp_path / "ledger.db"))
    address = server.start()
    assert address.key.startswith("sk_test_")
    assert serves(address.url)
    server.stop()
    assert not serves(address.url)
    assert (tmp_path / "ledger.db").exists()


def test_it_does_not_outlive_a_dashboard_that_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "ledger.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        url, _key = json.loads(starter.stdout.readline())
        assert serves(url)
        starter.kill()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while serves(url):
        assert time.monotonic() < deadline, "the server outlived the dashboard"
        time.sleep(0.02)


def test_a_server_that_cannot_start_says_why_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ServerDied) as died:
        EmbeddedServer(str(tmp_path / "folder")).start()
    assert len(str(died.value).splitlines()) == 1
    assert str(died.value)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], EmbeddedServer]:
    """Have a shell script run in place of the server."""

    def server(script: str) -> EmbeddedServer:
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(program))
        return EmbeddedServer()

    return server


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo; exit 3", "the server ended with exit code 3 and printed nothing"),
        ("echo 'Hello there'", "the server printed 'Hello there' instead of its address"),
        ("echo '[1]'", "the server printed '[1]' instead of its address"),
        ("echo noise >&2; echo; echo 'Error: no room' >&2", "no room"),
        ("echo 'Error: no room' >&2; echo >&2; echo '  ' >&2", "no room"),
    ],
)
def test_a_program_that_is_no_server_is_described_by_what_it_printed(
    stand_in: Callable[[str], EmbeddedServer], script: str, reason: str
) -> None:
    with pytest.raises(ServerDied) as died:
        stand_in(script).start()
    assert str(died.value) == reason


def test_a_server_that_does_not_end_is_ended(
    stand_in: Callable[[str], EmbeddedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "STOP_SECONDS", 0.05)
    server = stand_in("""trap '' TERM; echo '{"url": "http://h", "key": "k"}'; while :; do sleep 1; done""")
    assert server.start() == ("http://h", "k")
    pid = server.pid
    assert pid is not None
    server.stop()
    assert server.wait_for_end() is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_server_that_was_stopped_before_it_started_is_ended_at_once(
    stand_in: Callable[[str], EmbeddedServer],
) -> None:
    server = stand_in("exec cat")  # it ends when its input does
    server.stop()
    assert server.pid is None
    with pytest.raises(ServerDied):
        server.start()
    assert server.wait_for_end() is None
    assert server.pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("read line; echo 'disk is full' >&2", "disk is full"),
        ("read line", "the server ended and printed nothing"),
    ],
)
def test_the_last_words_of_a_server_that_ends_by_itself_are_given(
    stand_in: Callable[[str], EmbeddedServer], script: str, words: str
) -> None:
    server = stand_in(f"""echo '{{"url": "http://h", "key": "k"}}'; {script}""")
    server.start()
    process = server._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert server.wait_for_end() == words


@pytest.mark.usefixtures("forked_servers")
async def test_a_dashboard_whose_server_cannot_start_ends_with_1(tmp_path: Path) -> None:
    app = LedgerApp(Options(database=str(tmp_path)))
    async with app.run_test():
        await until(lambda: app.failure)
    assert app.failure.startswith("The server did not start: ")
    assert app.return_code == 1


@pytest.mark.usefixtures("forked_servers", "short_intervals")
async def test_the_whole_way_on_a_server_of_its_own_and_again_after_a_restart(tmp_path: Path) -> None:
    options = Options(database=str(tmp_path / "ledger.db"))
    app = LedgerApp(options)
    async with app.run_test(notifications=True) as pilot:
        driver = Driver(app, pilot)
        await driver.sees("No accounts yet.", " TEST ", "● online")
        await driver.press("n")
        await driver.type("Kuwait branch", "tab")
        await driver.type("kwd", "ctrl+s", sees=(" exists: KWD", "0.000  KWD"))
        await driver.press("2", "n")
        await driver.type("kuw", "enter", "tab")
        await driver.type("12.5", "enter")
        await driver.type("Opening float", "ctrl+s", sees="Post a transaction?")
        await driver.press("y", sees=("Credited ", "+12.500  KWD", "Opening float"))
        await driver.press("enter", sees=("balance after 12.500", "created       20"))

    app = LedgerApp(options)
    async with app.run_test() as pilot:
        await Driver(app, pilot).sees("Kuwait branch", "12.500  KWD")
