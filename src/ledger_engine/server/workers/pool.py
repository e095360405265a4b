"""The parent of `serve --workers`: it has the ledger, and other processes answer the requests.

The parent is the one process that writes: it commits the works of all workers in groups, checkpoints, and
runs the background tasks. It accepts the connections and passes each to the worker that has the fewest. In
place of a worker that has ended it starts another, if that runs the same program: when its files have been
replaced since, the others go on, and the server ends with the last of them. When the parent ends, in
whichever way, its workers end at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ledger_engine.core.processes import OTHER_PROGRAM, fingerprint
from ledger_engine.core.settings import ServeSettings
from ledger_engine.limits.shared_windows import make_memory
from ledger_engine.server.listening import BACKLOG
from ledger_engine.server.serving import DRAIN_S, Stop, first_of
from ledger_engine.server.workers.process import Begin, WorkerProcess
from ledger_engine.store.engine import Engine

if TYPE_CHECKING:
    from ledger_engine.upkeep.metrics import Metrics

RESTART_AFTER_S = (0.1, 1, 2, 5, 10, 30)  # after a worker ended unexpectedly once, twice, …
HEALTHY_AFTER_S = 60  # after running this long, its next end counts as the first
END_S = 1.5  # the time for a worker to end after its last request
ACCEPTED_AT_ONCE = 64  # connections accepted in one iteration of the event loop
PAUSE_S = 0.1  # before accepting again, when no file can be opened or no worker takes connections
REPLACED = "The program was replaced on the disk while this server runs"
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

log = logging.getLogger("ledger_engine.server.workers.pool")


class Workers:
    """The workers of one server, and the connections they get."""

    def __init__(
        self, settings: ServeSettings, database: Path, engine: Engine, meter: Metrics | None = None
    ) -> None:
        self._settings = settings
        self._database = database.resolve()
        self._engine = engine
        self._meter = meter
        self._note_end = None if meter is None else meter.watch_workers(self.pids)
        self._loop = asyncio.get_running_loop()
        self._memory = make_memory()
        self._program = fingerprint()
        self._outdated: asyncio.Future[None] = self._loop.create_future()  # done when no worker is left
        self._running: list[WorkerProcess] = []  # those that take connections
        self._keepers: list[asyncio.Task[None]] = []
        self._stopping = False
        engine.listen(self._tell_topics)

    async def serve(self, listener: socket.socket, stop: Stop, note_ready: Callable[[], None]) -> None:
        """Serve with all workers until asked to stop.

        Raises ChildProcessError when one cannot start at first, or none any more.
        """
        try:
            await self._start(stop)
            if not stop.asked.is_set():
                listener.setblocking(False)
                listener.listen(BACKLOG)
                self._loop.add_reader(listener, self._accept, listener)
                note_ready()
                await first_of(self._outdated, stop.asked)
                self._loop.remove_reader(listener)
                if self._outdated.done():
                    raise ChildProcessError(f"{REPLACED}, and no worker is left: start the server again.")
        finally:
            listener.close()
            await self._stop(stop)
            os.close(self._memory)

    async def _start(self, stop: Stop) -> None:
        started: list[asyncio.Future[None]] = [
            self._loop.create_future() for _ in range(self._settings.workers)
        ]
        self._keepers = [
            self._loop.create_task(self._keep_running(number, ready))
            for number, ready in enumerate(started, 1)
        ]
        everyone = self._loop.create_task(_all_of(started))
        await first_of(everyone, stop.asked)
        if everyone.done():
            everyone.result()
        else:
            everyone.cancel()

    async def _keep_running(self, number: int, ready: asyncio.Future[None]) -> None:
        """Run a worker, and another one when it has ended."""
        ended = 0
        while not self._stopping:
            began = time.monotonic()
            status = await self._run(number, ready)
            if self._stopping:
                return
            if not ready.done():
                ready.set_exception(
                    ChildProcessError(f"Worker {number} ended with status {status} before it could serve.")
                )
                return
            if time.monotonic() - began >= HEALTHY_AFTER_S:
                ended = 0
            if self._note_end is not None:
                self._note_end()
            pause = RESTART_AFTER_S[min(ended, len(RESTART_AFTER_S) - 1)]
            ended += 1
            if status == OTHER_PROGRAM:
                self._note_outdated(number, pause)
            else:
                log.error(
                    "worker %d has ended with status %s; starting another in %s s", number, status, pause
                )
            await asyncio.sleep(pause)

    def _note_outdated(self, number: int, pause: float) -> None:
        if self._running:
            log.error(
                "%s: there is no worker %d until the server is started again; trying again in %s s",
                *(REPLACED, number, pause),
            )
        elif not self._outdated.done():
            self._outdated.set_result(None)

    async def _run(self, number: int, ready: asyncio.Future[None]) -> int:
        """Run a worker until it ends; return its exit status."""
        begin = Begin(
            self._settings, self._database, self._memory, self._engine.clock.now(), self._engine.notice
        )
        worker = WorkerProcess(number, self._engine, begin, self._program, self._meter)

        async def note_ready() -> None:
            await worker.ready
            self._running.append(worker)
            worker.watch()
            if not ready.done():
                ready.set_result(None)

        noting = self._loop.create_task(note_ready())
        try:
            return await worker.run()
        finally:
            noting.cancel()
            if worker in self._running:
                self._running.remove(worker)

    async def _stop(self, stop: Stop) -> None:
        """Have all workers finish what is under way, or end at once when told to hurry."""
        self._stopping = True
        for worker in self._running:
            worker.tell("stop")
        hurry = self._loop.create_task(stop.hurry.wait())
        deadline = self._loop.time() + DRAIN_S + END_S
        while (left := [keeper for keeper in self._keepers if not keeper.done()]) and self._running:
            timeout = deadline - self._loop.time()
            done, _ = await asyncio.wait(
                {*left, hurry}, timeout=max(0, timeout), return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                break
            if hurry in done:
                for worker in self._running:
                    worker.tell("hurry")
                deadline = min(deadline, self._loop.time() + END_S)
                hurry = self._loop.create_task(asyncio.Event().wait())
        hurry.cancel()
        for keeper in self._keepers:
            keeper.cancel()  # which kills what still runs
        await asyncio.gather(*self._keepers, return_exceptions=True)

    def pids(self) -> dict[int, int]:
        """Return the process ids of the workers that serve, by their numbers."""
        return {worker.number: worker.pid for worker in self._running}

    def _tell_topics(self, topics: frozenset[str]) -> None:
        for worker in self._running:
            worker.tell("topics", topics)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if not self._running:
                self._pause(listener)
                return
            try:
                client, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._pause(listener)
                    return
                continue  # the client is gone
            with client:
                self._pass(client)

    def _pass(self, client: socket.socket) -> None:
        """Pass a connection to the worker that has the fewest; it ends if none can take it."""
        for worker in sorted(self._running, key=_preference):
            with contextlib.suppress(OSError):  # the worker is ending, or does not read
                worker.take(client)
                return

    def _pause(self, listener: socket.socket) -> None:
        def go_on() -> None:
            if not self._stopping:
                self._loop.add_reader(listener, self._accept, listener)

        self._loop.remove_reader(listener)
        self._loop.call_later(PAUSE_S, go_on)


def _preference(worker: WorkerProcess) -> tuple[bool, int]:
    return worker.is_late, worker.load()


async def _all_of(started: list[asyncio.Future[None]]) -> None:
    await asyncio.gather(*started)
