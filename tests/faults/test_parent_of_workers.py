"""What the parent of workers notices of them: what they have counted, that one hangs, that one is outdated.

The parent runs in the test's process, so that it may be less patient than it is. Its workers are forked, but
for the one that replaces another that has hung.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio

from ledger_engine.core.processes import OTHER_PROGRAM
from ledger_engine.core.settings import ServeSettings
from ledger_engine.server import ledger
from ledger_engine.server.listening import listen
from ledger_engine.server.serving import Stop
from ledger_engine.server.workers import pool as workers
from ledger_engine.server.workers import process as worker_process
from ledger_engine.server.workers.pool import Workers
from tests.faults.client import Connection
from tests.faults.workers import is_running
from tests.forking import ForkedWorkers
from tests.ledger_engine.upkeep.test_metrics import values_in
from tests.ledger_engine.waiting import looked_until, until

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

READ = 'ledger_http_request_duration_seconds_count{method="GET",route="/v1/accounts",status="200"}'


@dataclass
class Serving:
    """A parent with two workers."""

    port: int
    key: str
    metrics_url: str
    workers: Workers

    async def scrape(self) -> dict[str, float]:
        async with httpx.AsyncClient(trust_env=False) as prometheus:
            return values_in((await prometheus.get(self.metrics_url)).text)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def serving(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Serving]:
    database, stop, ready = tmp_path_factory.mktemp("parent") / "ledger.db", Stop(), asyncio.Event()
    settings = ServeSettings(database, port=0, workers=2, metrics=("127.0.0.1", 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_process, "subprocess", ForkedWorkers())
        async with (
            ledger.opened(settings, database) as engine,
            ledger.credential(engine, settings) as (key, _),
            ledger.metrics(engine, settings, None) as (meter, metrics_url),
        ):
            listener = listen(settings.host, settings.port)
            port = listener.getsockname()[1]
            parent = Workers(settings, database, engine, meter)
            running = asyncio.create_task(parent.serve(listener, stop, ready.set))
            await ready.wait()
            yield Serving(port, key or "", metrics_url or "", parent)
            stop.asked.set()
            await running


async def test_the_metrics_are_those_of_all_workers(serving: Serving) -> None:
    opened = [Connection(serving.key) for _ in range(4)]
    for each in opened * 3:
        assert (await each.request(serving.port, "GET", "/v1/accounts")).status == 200
    new = {"name": "Till", "currency": "EUR"}
    assert (await opened[0].request(serving.port, "POST", "/v1/accounts", new)).status == 201
    found = await looked_until(serving.scrape, lambda found: found.get(READ) == 12)
    assert found["ledger_commit_works_count"] >= 1, "the parent commits"
    for number in (1, 2):
        assert found[f'ledger_worker_process_resident_memory_bytes{{worker="{number}"}}'] > 0
    assert found["ledger_worker_ends_total"] == 0
    for each in opened:
        await each.close()


async def test_a_worker_that_hangs_gets_no_connections_and_is_ended_and_replaced(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workers, "RESTART_AFTER_S", (0,))
    monkeypatch.setattr(worker_process, "BEAT_S", 0.1)
    monkeypatch.setattr(worker_process, "HUNG_AFTER_BEATS", 10**9)
    hung = serving.workers.pids()[1]

    def is_late() -> bool:
        return any(each.is_late for each in serving.workers._running)

    async def use() -> None:
        """Open connections, each of which is answered."""
        for _ in range(3):
            connection = Connection(serving.key)
            assert (await connection.request(serving.port, "GET", "/v1/accounts")).status == 200
            await connection.close()

    os.kill(hung, signal.SIGSTOP)
    await until(is_late)
    await use()
    os.kill(hung, signal.SIGCONT)
    await until(lambda: not is_late())
    assert serving.workers.pids()[1] == hung, "it goes on as if nothing had been"
    ended = (await serving.scrape())["ledger_worker_ends_total"]
    monkeypatch.setattr(worker_process, "subprocess", subprocess)  # the other one is executed
    monkeypatch.setattr(worker_process, "HUNG_AFTER_BEATS", 20)
    os.kill(hung, signal.SIGSTOP)
    with caplog.at_level(logging.ERROR):
        await until(lambda: not is_running(hung))
        await until(lambda: serving.workers.pids().get(1, hung) != hung)
    monkeypatch.setattr(worker_process, "HUNG_AFTER_BEATS", 10**9)  # the others may be slow
    assert "worker 1 has not answered" in caplog.text
    await use()
    assert (await serving.scrape())["ledger_worker_ends_total"] > ended


async def test_a_worker_of_another_version_is_refused_in_the_log_and_the_others_go_on(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workers, "RESTART_AFTER_S", (0,))
    await until(lambda: len(serving.workers.pids()) == 2)
    with monkeypatch.context() as replaced:
        replaced.setattr(serving.workers, "_program", "of the files that are no longer there")
        os.kill(serving.workers.pids()[1], signal.SIGKILL)
        refused = f"{workers.REPLACED}: there is no worker 1 until the server is started again"
        await until(lambda: refused in caplog.text)
        connection = Connection(serving.key)
        assert (await connection.request(serving.port, "GET", "/v1/accounts")).status == 200
        await connection.close()
    await until(lambda: 1 in serving.workers.pids())


async def test_the_server_ends_when_no_worker_of_its_version_is_left(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Replaced(worker_process.WorkerProcess):
        """Serves once, and is of another version from then on."""

        runs = 0

        async def run(self) -> int:
            Replaced.runs += 1
            with self._passing, self._passed_to:
                if Replaced.runs > 2:
                    return OTHER_PROGRAM
                self.ready.set_result(None)
                await asyncio.sleep(0.01)
                return 1

        def tell(self, *message: object) -> None:
            pass

        def watch(self) -> None:
            pass

    monkeypatch.setattr(workers, "RESTART_AFTER_S", (0.1,))
    monkeypatch.setattr(workers, "WorkerProcess", Replaced)
    parent = Workers(serving.workers._settings, serving.workers._database, serving.workers._engine)
    with pytest.raises(ChildProcessError, match="no worker is left: start the server again"):
        await parent.serve(listen("127.0.0.1", 0), Stop(), lambda: None)
