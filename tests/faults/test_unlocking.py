"""The system fails to unlock a file: SQLite takes the lock for held, and the server gets over it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event

import httpx
import pytest

from tests.commands import answer_of_command
from tests.faults.tracing import Running, Tracer, can_trace, traced
from tests.ledger_engine.waiting import wait_until

ANSWERED_S = 60  # at most 30 are promised (docs/storage.md)
# Each fourth call that locks or unlocks the index of the log; soon these are unlocks after reading.
FAILURE = "inject=fcntl:error=EIO:when=4+4"
ROUNDS = 200
ASKING = 6
ASKED_AGAIN_S = 0.05


class Client:
    """Somebody who posts, and who asks for the server's health."""

    def __init__(self, server: Running, ledger: Path) -> None:
        wait_until(lambda: "Listening on" in server.out.read_text() or server.has_ended())
        url = server.out.read_text().splitlines()[0].removeprefix("Listening on ")
        key = answer_of_command(ledger, "keys", "create", "--mode", "test")["key"]
        self._health = httpx.Client(base_url=url, timeout=ANSWERED_S)
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=ANSWERED_S)
        made = self._http.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
        self._account = made.json()["id"]
        self.posted = self.unknown = 0

    def post(self) -> bool:
        body = {"account": self._account, "amount": 1, "type": "credit"}
        answer = self._http.post("/v1/transactions", json=body)
        assert answer.status_code in (201, 503), answer.text
        self.posted += answer.status_code == 201
        self.unknown += answer.status_code == 503 and "is not known" in answer.json()["error"]["message"]
        return answer.status_code == 201

    def is_well(self) -> bool:
        return self._health.get("/api/health").status_code == 200

    def close(self) -> None:
        self._health.close()
        self._http.close()

    def balance(self) -> int:
        balance: int = self._http.get(f"/v1/accounts/{self._account}").json()["balance"]
        return balance


@contextmanager
def asked(client: Client) -> Iterator[None]:
    """Let many ask for the server's health meanwhile, again and again."""
    enough = Event()

    def ask() -> None:
        while not enough.wait(ASKED_AGAIN_S):
            client.is_well()

    with ThreadPoolExecutor(ASKING) as threads:
        for _ in range(ASKING):
            threads.submit(ask)
        try:
            yield
        finally:
            enough.set()


@pytest.mark.timeout(600)
def test_after_locks_that_the_system_did_not_let_go_of_all_is_well_again(
    tracer: Tracer, tmp_path: Path
) -> None:
    if not can_trace():
        pytest.skip("needs strace and the right to trace")
    ledger, trace = tmp_path / "ledger.db", tmp_path / "trace"
    index = str(ledger.with_name("ledger.db-shm"))
    with tracer.running(["serve", "--port", "0", "--database", str(ledger)]) as server:
        try:
            injected = ("-P", index, "-e", "trace=fcntl", "-e", FAILURE, "-o", str(trace))
            with closing(Client(server, ledger)) as client:
                with traced(server.pid, *injected):
                    well = (client.post() and client.is_well() for _ in range(ROUNDS))
                    assert not all(well), "nobody noticed"
                assert re.search("F_UNLCK.*INJECTED", trace.read_text())
                with asked(client):
                    wait_until(lambda: client.post() and client.is_well())
                assert 0 <= client.balance() - client.posted <= client.unknown
        finally:
            server.kill()
