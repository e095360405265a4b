"""One worker as its parent sees it: the process, what it asks for, and the connections it was given."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ledger_engine.core.errors import LedgerError, StorageUnavailable
from ledger_engine.core.measuring import RequestMeter
from ledger_engine.core.processes import without_settings
from ledger_engine.core.settings import ServeSettings
from ledger_engine.events.webhooks.signing import VARIABLE
from ledger_engine.limits import Full, Semaphore
from ledger_engine.server.workers.parent import ANSWER, REFUSAL, Channel, Message
from ledger_engine.store.engine import Engine

BEAT_S = 1.0  # how often a worker is asked for a sign of life
HUNG_AFTER_BEATS = 10  # so many without an answer: it hangs

log = logging.getLogger("ledger_engine.server.workers.pool")

# Nothing of what is loaded is garbage. The argument is the fingerprint of the parent's program.
_PROGRAM = "import gc; gc.disable(); from ledger_engine.server.workers.worker import main; main({!r})"


class Begin(NamedTuple):
    """The first message to a worker.

    `memory` is the descriptor of the rate limits' memory, `now` the ledger's time in milliseconds.
    """

    settings: ServeSettings
    database: Path
    memory: int
    now: int
    notice: str | None


class WorkerProcess:
    """A worker from its start, by `run`, to its end; `ready` is set when it takes connections."""

    def __init__(
        self,
        number: int,
        engine: Engine,
        begin: Begin,
        program: str,
        meter: RequestMeter | None = None,
    ) -> None:
        """`program` is the fingerprint of the parent's program."""
        self.number = number
        self._engine = engine
        self._begin = begin
        self._program = program
        self._meter = meter
        self._process: subprocess.Popen[bytes] | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._unanswered = 0  # beats in a row
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self._lost = asyncio.Event()
        self._channel = Channel(self._receive, self._lost.set, _replace)
        self._passing, self._passed_to = socket.socketpair()
        self._passed = 0
        self._reported = (0, 0)  # how many connections the worker had taken, and how many were open
        self._tasks: dict[int, asyncio.Task[None]] = {}  # by the number of the request
        self._notice = begin.notice
        self._is_dated = False  # whether the messages that are waiting to be sent have the time with them

    async def run(self) -> int:
        """Start the process, serve its requests until it ends, and return its exit status.

        When cancelled it kills the process. Raises OSError when it cannot be started.
        """
        ours, theirs = socket.socketpair()
        self._passing.setblocking(False)
        with theirs, self._passed_to:
            process = self._process = self._start(theirs)
        try:
            await self._channel.open(ours)
            self._channel.send("begin", self._begin)
            await self._lost.wait()
        finally:
            if self._beat is not None:
                self._beat.cancel()
            self._passing.close()
            self._channel.close()
            for task in self._tasks.values():
                task.cancel()
            if not self._lost.is_set():
                process.kill()
            status = await asyncio.shield(asyncio.to_thread(_wait, process))
        return status

    def _start(self, channel: socket.socket) -> subprocess.Popen[bytes]:
        files = [channel.fileno(), self._passed_to.fileno()]
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM.format(self._program), *map(str, files)],
            stdin=subprocess.DEVNULL,
            pass_fds=[*files, self._begin.memory],
            env=without_settings(VARIABLE) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    @property
    def pid(self) -> int:
        """The id of the process, which has been started."""
        assert self._process is not None, "run was called"
        return self._process.pid

    def watch(self) -> None:
        """From now on kill the process when it has not answered for a while.

        What is counted is beats, not time: none is sent while this process itself is stopped.
        """
        assert self._process is not None, "run was called"
        if self._unanswered >= HUNG_AFTER_BEATS:
            log.error(
                "worker %d has not answered for %g s; killing it", self.number, HUNG_AFTER_BEATS * BEAT_S
            )
            self._process.kill()
            return
        self._unanswered += 1
        self.tell("beat")
        self._beat = self._loop.call_later(BEAT_S, self.watch)

    @property
    def is_late(self) -> bool:
        """Whether it has left more than one beat unanswered, so that others should get the connections."""
        return self._unanswered > 1

    def load(self) -> int:
        """Return how many connections it has."""
        taken, are_open = self._reported
        return are_open + self._passed - taken

    def take(self, client: socket.socket) -> None:
        """Pass a connection to it. Raises OSError when it cannot take one."""
        socket.send_fds(self._passing, [b"c"], [client.fileno()])
        self._passed += 1

    def tell(self, kind: str, content: Any = None, number: int = 0) -> None:
        """Send it a message, and with the first of those that travel together the ledger's time."""
        if not self._is_dated:
            self._is_dated = True
            self._loop.call_soon(self._note_sent)
            self._channel.send("now", self._engine.clock.now())
            if self._notice != self._engine.notice:
                self._notice = self._engine.notice
                self._channel.send("notice", self._notice)
        self._channel.send(kind, content, number)

    def _note_sent(self) -> None:
        self._is_dated = False

    def _receive(self, messages: list[Message]) -> None:
        for kind, number, content in messages:
            if kind == "write":
                try:
                    self._engine.submit(content, _Reply(self, number))
                except StorageUnavailable as error:
                    self.tell(REFUSAL, error, number)
            elif kind == "connections":
                self._reported = content
            elif kind == "beat":
                self._unanswered = 0
            elif kind == "measured":
                if self._meter is not None:
                    content.count_in(self._meter)
            elif kind == "check":
                self._begin_task(number, self._check(number))
            elif kind == "acquire":
                semaphores, wait = content
                self._begin_task(number, self._hold(number, semaphores, wait))
            elif kind == "release":
                if number in self._tasks:
                    self._tasks[number].cancel()
            elif kind == "ready" and not self.ready.done():
                self.ready.set_result(None)

    def _begin_task(self, number: int, work: Any) -> None:
        task = self._tasks[number] = self._loop.create_task(work)
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _check(self, number: int) -> None:
        try:
            await self._engine.check()
        except StorageUnavailable as error:
            self.tell(REFUSAL, error, number)
        else:
            self.tell(ANSWER, None, number)

    async def _hold(self, number: int, semaphores: Sequence[Semaphore], wait: bool) -> None:
        """Hold the semaphores until this is cancelled, by the worker or by its end."""
        try:
            async with self._engine.shared.semaphores.hold(*semaphores, wait=wait):
                self.tell(ANSWER, None, number)
                await asyncio.Event().wait()
        except Full as full:
            self.tell(REFUSAL, full, number)


class _Reply:
    """The outcome of a worker's request, which is sent to it."""

    __slots__ = ("_is_done", "_number", "_worker")

    def __init__(self, worker: WorkerProcess, number: int) -> None:
        self._worker = worker
        self._number = number
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, result: Any, /) -> None:
        self._is_done = True
        self._worker.tell(ANSWER, result, self._number)

    def set_exception(self, error: Any, /) -> None:
        self._is_done = True
        # Others may not be made again from what they are pickled as.
        sent = error if isinstance(error, LedgerError) else RuntimeError(repr(error))
        self._worker.tell(REFUSAL, sent, self._number)


def _replace(message: Message, error: Exception) -> Message:
    """Return what is sent in place of a message that cannot be pickled."""
    _, number, content = message
    return REFUSAL, number, RuntimeError(f"{content!r} cannot be sent: {error!r}")


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a process that has closed its channel, and return its exit status."""
    try:
        return process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
