"""A witness beside a server (docs/verify.md): a file that is put back is named in the server's health."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from ledger_engine.log.checkpoints import Checkpoint
from ledger_engine.log.notes import VerifierKey
from tests.commands import answer_of_command
from tests.forking import Process
from tests.ledger_engine.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.sqlite]

Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts `ledger-engine` with these words; it is killed at the end."""
    started: list[Process] = []

    def run(*words: str) -> Process:
        pipe = subprocess.PIPE
        started.append(Process(words, stdin=pipe, stdout=pipe, stderr=pipe))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def line(process: Process, beginning: str) -> str:
    """Return what follows the beginning in the next line of output."""
    assert process.stdout is not None
    said = process.stdout.readline().rstrip("\n")
    assert said.startswith(beginning), (said, process.communicate())
    return said.removeprefix(beginning)


def ended(process: Process) -> str:
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 0
    return err


def test_a_file_that_was_put_back_is_named_by_the_witness(start: Start, tmp_path: Path) -> None:
    ledger, before = tmp_path / "ledger.db", tmp_path / "before.db"
    key = answer_of_command(ledger, "keys", "create", "--mode", "test", "--role", "owner")["key"]
    authorized = {"Authorization": f"Bearer {key}"}

    def account(url: str) -> None:
        body = {"name": "Till", "currency": "EUR"}
        httpx.post(f"{url}/v1/accounts", json=body, headers=authorized).raise_for_status()

    def checkpoint(url: str) -> Checkpoint | None:
        answer = httpx.get(f"{url}/v1/log/checkpoint", headers=authorized)
        return Checkpoint.parse(answer.text) if answer.status_code == 200 else None

    serve = ("serve", "--database", str(ledger), "--port", "0", "--issuer", "https://ledger.example")
    server = start(*serve)
    url = line(server, "Listening on ").partition(" ")[0]
    account(url)
    wait_until(lambda: checkpoint(url))
    assert ended(server) == ""
    shutil.copyfile(ledger, before)

    (shown,) = answer_of_command(ledger, "log-key", "show")
    log = VerifierKey.parse(shown["key"])
    watch = ("--listen", "127.0.0.1:0", "--state", str(tmp_path / "w"), "--watch", f"{log.name}={log}")
    witness = start("witness", *watch)
    address = line(witness, "Listening on ")
    witnessed = ("--witness", address, "--witness-key", line(witness, "Witness key: "))
    other = VerifierKey.parse(witnessed[-1])

    server = start(*serve, *witnessed)
    url = line(server, "Listening on ").partition(" ")[0]
    account(url)

    def signed() -> bool:
        found = checkpoint(url)
        return found is not None and found.size == 2 and found.witness_time(other) is not None

    wait_until(signed)
    assert ended(server) == ""

    ledger.write_bytes(before.read_bytes())
    server = start(*serve, *witnessed)
    url = line(server, "Listening on ").partition(" ")[0]

    def notice() -> str | None:
        found: str | None = httpx.get(f"{url}/api/health").json()["notice"]
        return found

    wait_until(notice)
    sentence = (
        f"The witness {other.name} has signed 2 entries of {log.name}, and this ledger has 1: this"
        " ledger was rolled back, or is a fork."
    )
    assert notice() == sentence
    assert sentence in ended(server)
    assert ended(witness) == ""
