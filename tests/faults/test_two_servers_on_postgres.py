"""What `make run-postgres` starts (docs/postgresql.md): two servers on one ledger, and if one is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from threading import Thread

import httpx
import pytest
from httpx_sse import connect_sse

from tests.commands import answer_of_command

pytestmark = [pytest.mark.process, pytest.mark.slow]

SCRIPT = Path(__file__).parents[2] / "deploy" / "run_on_postgres.py"
SOON_S = 0.1
POSTINGS = 20
LINES = 4  # that the script prints: the database, two servers and the key
PATIENCE_S = 60


class Running:
    """Two servers on one database: their URLs and processes, and clients with a key."""

    def __init__(self, lines: Iterable[str]) -> None:
        said = "".join(lines)
        (self.database,) = re.findall(r"(?m)^Database +(\S+)$", said)
        servers = re.findall(r"(?m)^Server \d +(\S+) \(process (\d+)\)$", said)
        (key,) = re.findall(r"(?m)^Key +(\S+)$", said)
        self.processes = [int(process) for _, process in servers]
        self.clients = [
            httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S)
            for url, _ in servers
        ]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """Run the script from an empty folder, without its dashboard."""
    started = start(tmp_path)
    assert started.stdout is not None
    try:
        found = Running(islice(started.stdout, LINES))
        yield found
        for client in found.clients:
            client.close()
    finally:
        started.terminate()
        assert started.wait(PATIENCE_S) == 0
        started.stdout.close()
    assert list(tmp_path.iterdir()) == []


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, SCRIPT, "--no-dashboard", "--empty"], stdout=subprocess.PIPE, text=True, cwd=folder
    )


def test_a_posting_through_either_is_in_the_others_stream_at_once_and_outlives_a_kill(
    running: Running,
) -> None:
    account = post(running.clients[0], "/v1/accounts", {"name": "Till", "currency": "EUR"}, "account")
    body = {"account": account, "amount": 5, "type": "credit"}
    for here, other in (running.clients, running.clients[::-1]):
        assert min(delays(here, other, body)) < SOON_S
    acknowledged: list[str] = []

    def keep_posting() -> None:
        for number in range(200):
            try:
                acknowledged.append(post(running.clients[0], "/v1/transactions", body, f"killed {number}"))
            except httpx.TransportError:
                return

    posting = Thread(target=keep_posting)
    posting.start()
    while len(acknowledged) < 20:
        time.sleep(0.001)
    os.kill(running.processes[0], signal.SIGKILL)
    posting.join()
    assert 20 <= len(acknowledged) < 200
    # What was under way is resolved by its key, at the other server.
    last = len(acknowledged)
    answer = running.clients[1].post(
        "/v1/transactions", json=body, headers={"Idempotency-Key": f"killed {last}"}
    )
    assert answer.status_code in (201, 409), answer.text
    report = answer_of_command(running.database, "verify")
    assert (report["ok"], report["checked"]["transactions"]) == (True, 2 * POSTINGS + last + 1)
    for id in acknowledged:
        assert running.clients[1].get(f"/v1/transactions/{id}").status_code == 200


def post(client: httpx.Client, path: str, body: dict[str, object], key: str) -> str:
    answer = client.post(path, json=body, headers={"Idempotency-Key": key})
    assert answer.status_code == 201, answer.text
    id: str = answer.json()["id"]
    return id


def delays(here: httpx.Client, other: httpx.Client, body: dict[str, object]) -> list[float]:
    """Post at one server, and return how many seconds after each answer the other one streams it."""
    seen = []
    with connect_sse(other, "GET", "/v1/events/stream") as stream:
        messages = stream.iter_sse()
        assert "secret" in next(messages).json()
        for number in range(POSTINGS):
            id = post(here, "/v1/transactions", body, f"{here.base_url} {number}")
            answered = time.monotonic()
            while id not in next(messages).data:
                pass
            seen.append(time.monotonic() - answered)
    print(f"{sorted(seen)[POSTINGS // 2]:.3f} s in the middle, {max(seen):.3f} s at most")
    return seen


def test_nothing_is_left_of_a_run_that_was_killed(tmp_path: Path) -> None:
    killed = start(tmp_path)
    assert killed.stdout is not None
    with killed.stdout:
        left = Running(islice(killed.stdout, LINES))
    (folder,) = (Path(found) for found in re.findall(r"host=([^&]+)", left.database))
    processes = [*left.processes, int((folder / "postmaster.pid").read_text().split()[0])]
    killed.kill()
    killed.wait()
    until = time.monotonic() + PATIENCE_S
    while (folder.exists() or any(map(is_running, processes))) and time.monotonic() < until:
        time.sleep(0.02)
    still = [each for each in processes if is_running(each)]
    for each in still:
        os.kill(each, signal.SIGINT)  # a failed test ends them too
    assert (still, folder.exists(), list(tmp_path.iterdir())) == ([], False, [])


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
