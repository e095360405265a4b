"""A worker of `serve --workers`: it answers requests, reads the file, and has its parent write."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from typing import Any

from ledger_engine.core import logs
from ledger_engine.core.clock import SystemClock
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.program import OTHER_PROGRAM, fingerprint
from ledger_engine.events.following import Followers
from ledger_engine.events.request_log import RequestRecorder
from ledger_engine.http.wire.passed import PassedConnections
from ledger_engine.limits import Shared
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
from ledger_engine.server.workers.store import WorkerDatabase, open_database
from ledger_engine.store.engine import Engine


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
