"""A server process is stopped and goes on (SIGSTOP, SIGCONT), at the worst moments for its clock."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from ledger_engine.core.clock import iso
from tests.faults.server import PATIENCE_S, Server
from tests.ledger_engine.waiting import wait_until

# A server that stops itself after a reading of the clock that a file names.
STOPPING = """
import os, signal, time
from contextlib import suppress
from ledger_engine import cli
from ledger_engine.core.clock import SystemClock

def stop_after(reading, name):
    def read(*arguments):
        moment = reading(*arguments)
        with suppress(FileNotFoundError):
            os.unlink({folder!r} + "/" + name)
            os.kill(os.getpid(), signal.SIGSTOP)
        return moment
    return read

SystemClock.machine = stop_after(SystemClock.machine, "machine")
time.monotonic_ns = stop_after(time.monotonic_ns, "monotonic")
cli.main()
"""
READINGS = ("machine", "monotonic")
PAUSE_S = 0.3


def continue_after_pause(process: int) -> None:
    """Wait until the process is stopped, and have it go on a while later."""
    wait_until(lambda: Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > PAUSE_S)
    os.kill(process, signal.SIGCONT)


def test_after_pauses_a_posting_is_in_the_balance_of_the_moment_in_which_it_was_answered(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path / "ledger.db", program=STOPPING.format(folder=str(tmp_path)))
    server.start()
    try:
        key = {"Authorization": f"Bearer {server.make_key()}"}
        with (
            httpx.Client(base_url=server.url, headers=key, trust_env=False, timeout=PATIENCE_S) as client,
            ThreadPoolExecutor(1) as thread,
        ):
            account = client.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()["id"]

            def post() -> str:
                body = {"account": account, "amount": 1, "type": "credit"}
                answer = client.post("/v1/transactions", json=body)
                assert answer.status_code == 201, answer.text
                created: str = answer.json()["created"]
                return created

            pauses = READINGS * 3
            for reading in pauses:
                (tmp_path / reading).touch()
                posting = thread.submit(post)
                continue_after_pause(server.pid)
                posting.result()
            for count in range(len(pauses) + 1, len(pauses) + 6):
                created = post()
                now = iso(time.time_ns() // 1_000_000)
                assert created <= now
                past = client.get(f"/v1/accounts/{account}/balance", params={"at": now})
                assert (past.status_code, past.json()["balance"]) == (200, count)
    finally:
        server.kill()
