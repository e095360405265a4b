"""The order in which waiting works are read, and works that are given up when they take too long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ledger_engine.store import Unit
from ledger_engine.store.threaded import GIVES_WAY_S, Pending, QueuedWork, ReadingThreads, call_soon
from tests.ledger_engine.waiting import until


@dataclass(frozen=True)
class _OfProject:
    run: Callable[[Unit], None]
    project: str | None = None

    def __call__(self, unit: Unit) -> None:
        self.run(unit)


class _Readers(ReadingThreads):
    """Threads that note whose works they run, while `is_writing` says that nothing is written."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads, lambda: self.is_writing)
        self.is_writing = False
        self.read: list[str | None] = []

    def _run(self) -> None:
        job: QueuedWork | None = None
        while (job := self._next(job)) is not None:
            self.read.append(job.project)
            job.work(cast(Unit, None))
            call_soon(job.loop, job.settle)

    def queue(
        self, project: str | None, run: Callable[[Unit], None] = lambda _: None, *, long: bool = False
    ) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[None] = loop.create_future()
        self.add(QueuedWork(_OfProject(run, project), outcome, loop, writes=False, long=long))
        return outcome


class _Block:
    """A work that runs until it is released."""

    def __init__(self) -> None:
        self.started, self._release = threading.Event(), threading.Event()

    def __call__(self, _: Unit) -> None:
        self.started.set()
        self._release.wait(60)

    def release(self) -> None:
        self._release.set()


async def test_projects_take_turns_however_many_works_each_of_them_has_waiting() -> None:
    readers, block = _Readers(2), _Block()
    readers.start()
    readers.queue(None, block)
    readers.queue("busy", second := _Block())
    await asyncio.to_thread(second.started.wait)
    for _ in range(100):
        readers.queue("busy")
    readers.queue("other")
    for _ in range(2):
        readers.queue(None)
    # One thread is held by a work without a project; the other one takes the next turns.
    assert len(readers) == 103
    second.release()
    await until(lambda: len(readers.read) == 105)
    assert readers.read[2:] == ["busy", "other", None, "busy", None] + 98 * ["busy"]
    block.release()
    await asyncio.to_thread(readers.stop, 60)


async def test_one_project_leaves_a_thread_to_other_projects_and_its_further_works_wait() -> None:
    readers, blocks = _Readers(3), [_Block(), _Block()]
    readers.start()
    for block in blocks:
        readers.queue("busy", block)
        await asyncio.to_thread(block.started.wait)
    late = [readers.queue("busy") for _ in range(5)]
    async with asyncio.timeout(60):
        await readers.queue("other")
    assert readers.read == ["busy", "busy", "other"]
    assert len(readers) == 5, "works that are held back are still waiting"
    blocks[0].release()
    async with asyncio.timeout(60):
        await asyncio.gather(*late)
    blocks[1].release()
    await asyncio.to_thread(readers.stop, 60)


async def test_a_long_work_takes_one_of_the_threads_of_its_project() -> None:
    readers, blocks = _Readers(3), [_Block(), _Block()]
    readers.start()
    for block, long in zip(blocks, (True, False), strict=True):
        readers.queue("busy", block, long=long)
        await asyncio.to_thread(block.started.wait)
    late = readers.queue("busy")
    async with asyncio.timeout(60):
        await readers.queue("other")
    assert not late.done()
    for block in blocks:
        block.release()
    await asyncio.to_thread(readers.stop, 60)


async def test_works_held_back_are_finished_when_the_threads_stop() -> None:
    readers, blocks = _Readers(3), [_Block(), _Block()]
    readers.start()
    for block in blocks:
        readers.queue("busy", block)
        await asyncio.to_thread(block.started.wait)
    late = [readers.queue("busy") for _ in range(3)]
    stopping = asyncio.create_task(asyncio.to_thread(readers.stop, 60))
    await until(lambda: sum(thread.is_alive() for thread in readers._threads) == 2)
    for block in blocks:
        block.release()
    await stopping
    assert all(outcome.done() for outcome in late)


async def test_one_long_work_of_a_project_runs_at_once_and_its_short_works_pass_it() -> None:
    readers, block = _Readers(4), _Block()
    readers.start()
    readers.queue("busy", block, long=True)
    await asyncio.to_thread(block.started.wait)
    second = readers.queue("busy", long=True)
    async with asyncio.timeout(60):
        await readers.queue("busy")
        await readers.queue("other", long=True)
    assert not second.done()
    block.release()
    async with asyncio.timeout(60):
        await second
    await asyncio.to_thread(readers.stop, 60)


async def test_a_long_work_lets_writes_go_first_but_does_not_wait_for_ever() -> None:
    readers, waited_s = _Readers(2), 0.0
    readers.is_writing = True
    readers.start()
    began = time.monotonic()

    def note(_: Unit) -> None:
        nonlocal waited_s
        waited_s = time.monotonic() - began

    async with asyncio.timeout(60):
        await readers.queue("busy", note, long=True)
    assert waited_s >= GIVES_WAY_S
    await asyncio.to_thread(readers.stop, 60)


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
