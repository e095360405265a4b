"""A worker of `serve --workers`: it answers requests, reads the file, and has its parent write."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any, cast

from ledger_engine.core import logs
from ledger_engine.core.clock import Clock, SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.core.measuring import CommitObserver
from ledger_engine.core.processes import OTHER_PROGRAM, fingerprint
from ledger_engine.events.following import Followers
from ledger_engine.events.request_log import RequestRecorder
from ledger_engine.http.wire.serving import PassedConnections
from ledger_engine.limits import Outcome, Shared
from ledger_engine.limits.shared_windows import SharedWindows
from ledger_engine.server.listening import configure
from ledger_engine.server.serving import (
    Stop,
    begin_serving,
    collect_rarely,
    loop_factory,
    make_app,
    serve_until,
)
from ledger_engine.server.workers.parent import Message, Parent, ParentsMeter, ParentsSemaphores
from ledger_engine.server.workers.process import Begin
from ledger_engine.store import Listener, T, Work
from ledger_engine.store.engine import Engine
from ledger_engine.store.group_commit import GroupCommit
from ledger_engine.store.sqlite.connection import reason_of
from ledger_engine.store.sqlite.file import DatabaseFile, probe_read
from ledger_engine.store.sqlite.readers import CLOSE_CONNECTIONS_S, Readers
from ledger_engine.store.threaded import ANSWER_S, CHECK_S, CLOSE_S, SILENT, WAITING_MAX, Job, Pending

# The database of a worker: it reads the file itself, and its parent writes.
#
# The parent's writer runs the works of all workers in groups, in the order in which they arrive, and no other
# process writes, checkpoints or migrates.


# The parent answers within ANSWER_S, unless it hangs as a whole.
PARENT_ANSWERS_S = ANSWER_S + 2


class WorkerDatabase:
    """One SQLite file, which the parent has opened; use it in one event loop. Open with `open_database`.

    Call `notice_commit` when the parent announces a commit.
    """

    def __init__(self, path: Path, clock: Clock, parent: Parent) -> None:
        self._parent = parent
        self._listeners: list[Listener] = []
        self._file = DatabaseFile(path, checkpoints=False)
        self._readers = Readers(self._file, clock, IdSource(), self._note_locked)
        self._closing = False
        self._closes_all = threading.Lock()
        loop = asyncio.get_running_loop()
        self._reads = Pending(loop, ANSWER_S, _give_up)
        self._writes = Pending(loop, PARENT_ANSWERS_S, self._give_up_write)
        self._groups: GroupCommit[Job] = GroupCommit(loop, self._send)
        self._unanswered = 0  # of the group that was sent
        self._readers.start()

    def read_at_once(self, work: Work[T]) -> tuple[T] | None:
        return None if self._closing else self._readers.run_at_once(work)

    async def read(self, work: Work[T]) -> T:
        self._require_open(len(self._readers))
        loop = asyncio.get_running_loop()
        answered = loop.create_future()
        job = Job(work, answered, loop, writes=False)
        self._readers.add(job)
        return cast(T, await self._reads.answer(job, answered))

    async def write(self, work: Work[T]) -> T:
        answered = asyncio.get_running_loop().create_future()
        job = self._submit(work, answered)
        return cast(T, await self._writes.answer(job, answered))

    def submit(self, work: Work[Any], outcome: Outcome) -> None:
        self._writes.add(self._submit(work, outcome))

    async def check(self) -> None:
        try:
            async with asyncio.timeout(CHECK_S):
                await self.read(probe_read)
                await self._parent.ask("check")
        except TimeoutError:
            raise StorageUnavailable(SILENT) from None

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def notice_commit(self, topics: frozenset[str]) -> None:
        """Call the listeners with the topics of a commit."""
        for listener in self._listeners:
            listener(topics)

    def observe_commits(self, observer: CommitObserver) -> None:
        """Do nothing: the parent makes all commits."""

    async def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._groups.flush()
            await asyncio.to_thread(self._readers.stop, CLOSE_S)
            self._file.close()

    def _submit(self, work: Work[Any], outcome: Outcome) -> Job:
        self._require_open(len(self._groups))
        if self._groups.age() > PARENT_ANSWERS_S:
            raise StorageUnavailable(SILENT)
        job = Job(work, outcome, asyncio.get_running_loop(), writes=True)
        self._groups.add(job)
        return job

    def _send(self, group: list[Job]) -> None:
        """Send a group to the parent; the next one waits until all of it is answered."""
        self._unanswered += len(group)
        for job in group:
            self._parent.request("write", job.work, _Sent(self, job))
        self._parent.flush()

    def note_answered(self, job: Job) -> None:
        """Settle a job that the parent has answered."""
        job.settle()
        self._writes.remove(job)
        self._unanswered -= 1
        if not self._unanswered:
            self._groups.done()

    def _give_up_write(self, job: Job) -> None:
        """Fail a write that has waited too long; it is not sent if that has not happened."""
        unknown = not self._groups.withdraw(job)
        job.outcome.set_exception(StorageUnavailable(SILENT, unknown=unknown))

    def _require_open(self, waiting: int) -> None:
        if self._closing:
            raise StorageUnavailable("it is being closed")
        if waiting >= WAITING_MAX:
            raise StorageUnavailable("too many requests are waiting")

    def _note_locked(self, code: int) -> None:
        """Close all connections of this process, in a thread; for a reader that a lock has stopped."""
        if self._closes_all.acquire(blocking=False):
            threading.Thread(target=self._close_all, args=[CLOSE_CONNECTIONS_S[code]], daemon=True).start()

    def _close_all(self, limit_s: float) -> None:
        try:
            self._readers.close_connections(limit_s)
        finally:
            self._closes_all.release()


class _Sent:
    """The outcome of a write that was sent to the parent."""

    __slots__ = ("_database", "_job")

    def __init__(self, database: WorkerDatabase, job: Job) -> None:
        self._database = database
        self._job = job

    def done(self) -> bool:
        return False  # the answer counts, though nobody may wait for it any more

    def set_result(self, result: Any, /) -> None:
        self._job.answer = result
        self._database.note_answered(self._job)

    def set_exception(self, error: Any, /) -> None:
        self._job.error = error
        self._database.note_answered(self._job)


def _give_up(job: Job) -> None:
    job.outcome.set_exception(StorageUnavailable(SILENT))


def open_database(path: Path, clock: Clock, parent: Parent) -> WorkerDatabase:
    """Open the file for a worker. Raises StorageUnavailable when it cannot be used."""
    try:
        return WorkerDatabase(path, clock, parent)
    except OSError as error:
        raise StorageUnavailable(f"{path}: {reason_of(error)}") from error


# The process


def main(program: str) -> None:
    """Run the process; its arguments are the descriptors of the channel and of the passed connections.

    `program` is the fingerprint of the parent's program. The exit status is OTHER_PROGRAM when it is not the
    one here: works are sent as the names of functions, which may do something else in another version.
    """
    if program != fingerprint():
        sys.exit(OTHER_PROGRAM)
    # A signal may go to all processes of a terminal or a service: the parent heeds it, and tells us.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    channel, source = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    for inherited in (channel, source):
        inherited.set_inheritable(False)
    collect_rarely()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_work(channel, source))


async def _work(channel: socket.socket, source: socket.socket) -> None:
    await _Worker().run(channel, source)


class _Worker:
    def __init__(self) -> None:
        self._begun: asyncio.Future[Begin] = asyncio.get_running_loop().create_future()
        self._stop = Stop()
        self._clock = SystemClock()
        self._database: WorkerDatabase | None = None
        self._engine: Engine | None = None
        self._parent = Parent(self._be_told, self._end_at_once)

    async def run(self, channel: socket.socket, source: socket.socket) -> None:
        """Answer requests until told to stop."""
        await self._parent.open(channel)
        begin = await self._begun
        logs.configure(begin.settings.log_format, begin.settings.log_level)
        self._clock.advance_past(begin.now - 1)
        os.set_inheritable(begin.memory, False)
        config = configure(begin.settings)
        try:
            self._database = open_database(begin.database, self._clock, self._parent)
        except StorageUnavailable as error:
            sys.exit(str(error))
        shared = Shared(SharedWindows(begin.memory), ParentsSemaphores(self._parent))
        self._engine = engine = Engine(self._database, self._clock, shared)
        _note(engine, begin.notice)
        recorder = RequestRecorder(engine)
        recorder.start()
        meter = None if begin.settings.metrics is None else ParentsMeter(self._parent)
        app = make_app(begin.settings)
        begin_serving(app, begin.settings, engine, recorder, meter)
        passed = PassedConnections(source, lambda *numbers: self._parent.tell("connections", numbers))
        await serve_until(
            self._stop, app, config, lambda: self._parent.tell("ready"), Followers.of(engine).end, passed
        )
        await recorder.stop()
        await engine.close()
        if meter is not None:
            meter.report()
        self._parent.close()

    def _be_told(self, message: Message) -> None:
        kind, _, content = message
        if kind == "now":
            self._clock.advance_past(content - 1)
        elif kind == "topics":
            if self._database is not None:
                self._database.notice_commit(content)
        elif kind == "notice":
            if self._engine is not None:
                _note(self._engine, content)
        elif kind == "beat":
            self._parent.tell("beat")
        elif kind == "begin":
            self._begun.set_result(content)
        elif kind == "stop":
            self._stop.asked.set()
        elif kind == "hurry":
            self._stop.hurry.set()

    def _end_at_once(self) -> Any:
        # The parent has ended, or we have closed the channel as the last thing to do. Whatever is under way
        # can neither be written nor be promised.
        os._exit(0 if self._stop.asked.is_set() else 1)


def _note(engine: Engine, notice: str | None) -> None:
    engine.notices = {} if notice is None else {"parent": notice}
