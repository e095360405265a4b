"""The order in which waiting works are read, and works that are given up when they take too long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ledger_engine.store import Unit
from ledger_engine.store.threaded import Pending, QueuedWork, ReadingThreads, call_soon
from tests.ledger_engine.waiting import until


@dataclass(frozen=True)
class _OfProject:
    run: Callable[[Unit], None]
    project: str | None = None

    def __call__(self, unit: Unit) -> None:
        self.run(unit)


class _OneThread(ReadingThreads):
    def __init__(self) -> None:
        super().__init__(1)
        self.read: list[str | None] = []

    def _run(self) -> None:
        while (job := self._next()) is not None:
            self.read.append(getattr(job.work, "project", None))
            job.work(cast(Unit, None))
            call_soon(job.loop, job.settle)


async def test_projects_take_turns_however_many_works_each_of_them_has_waiting() -> None:
    loop, started, release = asyncio.get_running_loop(), threading.Event(), threading.Event()
    readers = _OneThread()

    def wait(_: Unit) -> None:
        started.set()
        release.wait()

    def add(project: str | None, count: int, run: Callable[[Unit], None] = lambda _: None) -> None:
        for _ in range(count):
            readers.add(QueuedWork(_OfProject(run, project), loop.create_future(), loop, writes=False))

    readers.start()
    add("busy", 1, wait)
    await asyncio.to_thread(started.wait)
    add("busy", 100)
    add("other", 1)
    add(None, 2)
    assert len(readers) == 103
    release.set()
    await asyncio.to_thread(readers.stop, 60)
    assert readers.read == ["busy", "busy", "other", None, "busy", None] + 98 * ["busy"]


async def test_a_work_answered_in_time_is_not_given_up_with_a_late_one() -> None:
    loop = asyncio.get_running_loop()
    given_up: list[QueuedWork] = []
    pending = Pending(loop, 0.01, given_up.append)
    answered, slow = (
        QueuedWork(lambda unit: None, loop.create_future(), loop, writes=True) for _ in range(2)
    )
    for job in (answered, slow):
        pending.add(job)
    answered.outcome.set_result("done")
    await until(lambda: given_up != [])
    assert given_up == [slow]
