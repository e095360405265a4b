"""The base class of both databases. It passes works to threads, and results back to the event loops.

A *work* is a function that runs in one transaction (see `store`). A *job* is a work together with the future
that receives its result. One thread writes, group by group (`group_commit`); other threads read.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import Listener, LongWork, T, Work, project_of
from ledger_engine.store.group_commit import GroupCommit

ANSWER_S = 10  # if a work of a server takes more seconds than this, it fails (docs/storage.md)
CHECK_S = 3  # if a check takes more seconds than this, it fails
CLOSE_S = 20  # `close` waits this many seconds for the readers, and then as long again for the writer
# If this many works wait for the readers, or this many works of an event loop wait for the writer, further
# works are refused.
WAITING_MAX = 4096
SILENT = "it does not answer"
MEMORY_AGAIN_S = 0.1  # seconds to wait before a step that failed for lack of memory is repeated
LONG_AT_ONCE = 2  # long works that the reading threads run at once
GIVES_WAY_S = 0.01  # the most seconds that a long work waits while shorter works are running

# The jobs that read take turns (`ReadingThreads`), and jobs with an equal key share a turn. The key has two
# parts: the job's project (None if the job belongs to no single project), and whether the job is a long work.
Turn = tuple[str | None, bool]


@dataclass(slots=True, eq=False)
class QueuedWork:
    """A job: a work, its answer or error, and the future that receives the result.

    A job is `finished` when its answer or error is final. The answer of a write is final after the commit.
    """

    work: Work[Any]
    outcome: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    writes: bool
    long: bool = False
    answer: Any = None
    error: BaseException | None = None
    finished: bool = False

    @property
    def project(self) -> str | None:
        """Return the project for which the work takes a turn; None if the work belongs to no project."""
        return project_of(self.work)

    def settle(self) -> None:
        """Set the result of the future, unless the future is done; call this in the event loop's thread."""
        if self.outcome.done():
            return
        if self.error is not None:
            self.outcome.set_exception(self.error)
        else:
            self.outcome.set_result(self.answer)


class Pending:
    """The unanswered jobs of one event loop.

    `give_up` is called for each job that takes longer than `limit_s` seconds. One timer serves all jobs,
    because a timer for each job would make every request slower.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_s: float, give_up: Callable[[QueuedWork], None]
    ) -> None:
        self._loop = loop
        self._limit_s = limit_s
        self._give_up = give_up
        self._due: dict[QueuedWork, float] = {}  # the deadline of each job, the earliest first
        self._timer: asyncio.TimerHandle | None = None

    def add(self, job: QueuedWork) -> None:
        """Start to measure the time of a job; `remove` stops this."""
        self._due[job] = self._loop.time() + self._limit_s
        if self._timer is None:
            self._timer = self._loop.call_later(self._limit_s, self._check_deadlines)

    def remove(self, job: QueuedWork) -> None:
        """Forget a job, because its result has arrived."""
        self._due.pop(job, None)

    async def answer(self, job: QueuedWork, result: asyncio.Future[Any]) -> Any:
        """Wait for `result`, the future of the job, and return the job's answer."""
        self.add(job)
        try:
            return await result
        finally:
            self.remove(job)

    def _check_deadlines(self) -> None:
        self._timer = None
        now = self._loop.time()
        for job, due in list(self._due.items()):
            if due > now:
                self._timer = self._loop.call_at(due, self._check_deadlines)
                return
            if not job.outcome.done():
                self._give_up(job)
            self._due.pop(job, None)


def insist(step: Callable[..., T], *arguments: Any) -> T:
    """Return the result of `step`; repeat the call as long as it fails for lack of memory.

    Use this in threads that nothing restarts: if such a thread ended, all waiting works would wait for ever.
    """
    while True:
        try:
            return step(*arguments)
        except MemoryError:
            time.sleep(MEMORY_AGAIN_S)


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: Any) -> None:
    """Run `call` in an event loop's thread; do nothing when the loop is closed."""
    with contextlib.suppress(RuntimeError):
        insist(loop.call_soon_threadsafe, call, *arguments)


class ReadingThreads(ABC):
    """Runs works in parallel, in `threads` threads.

    Projects take turns, and each project leaves at least one thread to the other projects. So a project with
    many works delays no other project. The short works that belong to no project share one turn, and the long
    works that belong to no project share another.

    A long work takes some milliseconds; for example, it reads a part of an account statement. At most
    `LONG_AT_ONCE` long works run at once, and at most one of each project, because long works compete with
    the event loop for the interpreter. If shorter works are running, a long work first waits up to
    GIVES_WAY_S seconds. A write counts as a shorter work; `is_writing` returns whether a write is running.
    """

    def __init__(self, threads: int, is_writing: Callable[[], bool]) -> None:
        # Each entry wakes one thread. The thread then takes the job whose turn is next, not the entry's job.
        self._waiting: queue.SimpleQueue[QueuedWork | None] = queue.SimpleQueue()
        # The waiting jobs of each turn. The order of the turns is the order of the dict.
        self._turns: dict[Turn, deque[QueuedWork]] = {}
        self._turns_lock = threading.Lock()
        self._running: Counter[Turn] = Counter()
        # How many jobs wait in `_turns` without an entry in `_waiting`: a thread took the entry, but no job
        # was allowed to run at that moment.
        self._held_back = 0
        self._is_writing = is_writing
        self._threads = [
            threading.Thread(target=self._run, name=f"ledger-reader-{number}", daemon=True)
            for number in range(threads)
        ]

    def __len__(self) -> int:
        """Return how many works are waiting."""
        return self._waiting.qsize() + self._held_back

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def add(self, job: QueuedWork) -> None:
        """Queue a work for one of the threads."""
        with self._turns_lock:
            self._turns.setdefault(_turn_of(job), deque()).append(job)
        self._waiting.put(job)

    def run_at_once(self, work: Work[T]) -> tuple[T] | None:
        """Run a work, which reads a few rows, in the event loop's thread; return its result in a tuple.

        Return None if the work must run in one of the threads. Raises the errors of the work.
        """
        return None

    def is_reading_at_once(self) -> bool:
        """Return whether the event loop's thread is reading."""
        return False

    def stop(self, limit_s: float) -> None:
        """Finish the accepted works and end the threads; wait at most `limit_s` seconds."""
        for _ in self._threads:
            self._waiting.put(None)
        deadline = time.monotonic() + limit_s
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))

    def _next(self, last_job: QueuedWork | None) -> QueuedWork | None:
        """Wait for a job and return it; None if the threads are to end.

        `last_job` is the job that this thread ran last, or None.
        """
        job = None if last_job is None else insist(self._end_turn, last_job)
        while job is None:
            if self._waiting.get() is None:
                return None
            job = insist(self._begin_turn)
        if job.long:
            insist(self._give_way)
        return job

    def _give_way(self) -> None:
        """Wait while shorter works are running, but at most GIVES_WAY_S seconds.

        On a busy server shorter works are always running, so without this limit a long work would not run.
        """
        deadline = time.monotonic() + GIVES_WAY_S
        while self._is_busy() and time.monotonic() < deadline:
            time.sleep(GIVES_WAY_S / 10)

    def _is_busy(self) -> bool:
        with self._turns_lock:
            is_reading = any(not is_long for _project, is_long in self._running)
        return is_reading or self._is_writing() or self.is_reading_at_once()

    def _end_turn(self, last_job: QueuedWork) -> QueuedWork | None:
        """Note the end of a job, and return the next job that was held back.

        Return None if no such job may run now.
        """
        with self._turns_lock:
            turn = _turn_of(last_job)
            self._running[turn] -= 1
            if not self._running[turn]:
                del self._running[turn]
            job = self._take_turn() if self._held_back else None
            if job is not None:
                self._held_back -= 1
            return job

    def _begin_turn(self) -> QueuedWork | None:
        """Return the next job; None if every waiting job must wait until a running job ends."""
        with self._turns_lock:
            job = self._take_turn()
            if job is None:
                self._held_back += 1
            return job

    def _take_turn(self) -> QueuedWork | None:
        for turn, jobs in self._turns.items():
            if self._may_run(turn):
                del self._turns[turn]
                job = jobs.popleft()
                if jobs:
                    self._turns[turn] = jobs  # put this turn at the end of the order
                self._running[turn] += 1
                return job
        return None

    def _may_run(self, turn: Turn) -> bool:
        project, is_long = turn
        of_project = self._running[project, False] + self._running[project, True]
        if project is not None and of_project >= max(1, len(self._threads) - 1):
            return False
        long = [number for other, number in self._running.items() if other[1]]
        return not is_long or (sum(long) < LONG_AT_ONCE and not self._running[turn])

    @abstractmethod
    def _run(self) -> None:
        """Run the works that `_next` returns, in sequence, until it returns None."""


def _turn_of(job: QueuedWork) -> Turn:
    return job.project, job.long


@dataclass(frozen=True, slots=True)
class _LoopState:
    """The state of one event loop: its works for the writer, and the works that wait for their results.

    A finished long work, such as a batch, stays in `answered_later` until the next group is committed. If
    the event loop rendered the answer of the long work at once, the writer would wait for the interpreter.
    """

    group_commit: GroupCommit[QueuedWork]
    pending: Pending
    answered_later: list[QueuedWork] = field(default_factory=list)


class ThreadedDatabase:
    """Accepts works from event loops, and gives their results back.

    The thread that writes takes groups from `_writes` and calls `_settle` with each group, until it receives
    None. The thread sets `_is_lost` while it cannot write. On a server a work fails after ANSWER_S seconds.
    """

    _readers: ReadingThreads
    _thread: threading.Thread

    def __init__(self, *, serving: bool, can_read: Work[object], can_write: Work[object]) -> None:
        """`can_read` and `can_write` test whether the database can be read and written."""
        # A command waits as long as necessary, because its user can stop it.
        self._answer_s = ANSWER_S if serving else math.inf
        self._can_read = can_read
        self._can_write = can_write
        self._is_lost = False
        self._listeners: list[Listener] = []
        self._loops: dict[asyncio.AbstractEventLoop, _LoopState] = {}
        self._writes: queue.SimpleQueue[list[QueuedWork] | None] = queue.SimpleQueue()
        self._closing = False

    def read_at_once(self, work: Work[T]) -> tuple[T] | None:
        return None if self._closing else self._readers.run_at_once(work)

    async def read(self, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        result = loop.create_future()
        job = self._new_job(work, result, loop, len(self._readers), writes=False)
        self._readers.add(job)
        return cast(T, await self._state_of(loop).pending.answer(job, result))

    async def write(self, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        result = loop.create_future()
        job, loop_state = self._submit(work, result, loop)
        return cast(T, await loop_state.pending.answer(job, result))

    async def check(self) -> None:
        try:
            async with asyncio.timeout(CHECK_S):
                if self._age() > CHECK_S and not await self._waits_for_others():
                    raise StorageUnavailable(SILENT)
                await self.read(self._can_read)
                if self._is_lost:
                    # A server that is reported as down gets no requests, so without this write nothing would
                    # show that the server can write again.
                    await self.write(self._can_write)
        except TimeoutError:
            raise StorageUnavailable(SILENT) from None

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._flush()
        # Stop the readers first, so that the writer's connection is the last that closes a SQLite file. The
        # last connection copies SQLite's write-ahead log into the file.
        await asyncio.to_thread(self._readers.stop, CLOSE_S)
        self._writes.put(None)
        await asyncio.to_thread(self._thread.join, CLOSE_S)

    def _is_writing(self) -> bool:
        """Return whether the writer is working on a group; any thread may call this."""
        return any(loop_state.group_commit.is_busy for loop_state in [*self._loops.values()])

    async def _waits_for_others(self) -> bool:
        """Return whether the current group waits for data that another process has locked."""
        return False

    def _age(self) -> float:
        """Return for how many seconds the oldest group has been with the writer; 0 if there is none."""
        return max((loop_state.group_commit.age() for loop_state in self._loops.values()), default=0.0)

    def _flush(self) -> None:
        """Hand over to the writer all works that wait for it, without waiting for full groups."""
        for loop_state in self._loops.values():
            loop_state.group_commit.flush()

    def _submit(
        self, work: Work[Any], outcome: asyncio.Future[Any], loop: asyncio.AbstractEventLoop
    ) -> tuple[QueuedWork, _LoopState]:
        loop_state = self._state_of(loop)
        job = self._new_job(work, outcome, loop, len(loop_state.group_commit), writes=True)
        if loop_state.group_commit.age() > self._answer_s:
            raise StorageUnavailable(SILENT)
        loop_state.group_commit.add(job)
        return job, loop_state

    def _new_job(
        self,
        work: Work[Any],
        outcome: asyncio.Future[Any],
        loop: asyncio.AbstractEventLoop,
        waiting: int,
        *,
        writes: bool,
    ) -> QueuedWork:
        if self._closing:
            raise StorageUnavailable("it is being closed")
        if waiting >= WAITING_MAX:
            raise StorageUnavailable("too many requests are waiting")
        return QueuedWork(work, outcome, loop, writes, isinstance(work, LongWork))

    def _state_of(self, loop: asyncio.AbstractEventLoop) -> _LoopState:
        loop_state = self._loops.get(loop)
        if loop_state is None:
            self._loops = {other: state for other, state in self._loops.items() if not other.is_closed()}
            loop_state = self._loops[loop] = _LoopState(
                GroupCommit(loop, self._writes.put), Pending(loop, self._answer_s, self._give_up_waiting)
            )
        return loop_state

    def _give_up_waiting(self, job: QueuedWork) -> None:
        """Fail a job that has waited too long; if it has not started, it never runs.

        A finished job that is waiting in `answered_later` gets its answer now, because its result is known.
        """
        if job.finished:
            job.settle()
            return
        unknown = job.writes and not self._state_of(job.loop).group_commit.withdraw(job)
        job.outcome.set_exception(StorageUnavailable(SILENT, unknown=unknown))

    def _settle(self, jobs: list[QueuedWork], topics: frozenset[str], *, ends_group: bool = True) -> None:
        """Give jobs their results and call the listeners with the topics of the jobs.

        `ends_group` is true for the last jobs of a group.
        """
        for loop, jobs_of_loop in insist(_finish_by_loop, jobs).items():
            call_soon(loop, self._publish, jobs_of_loop, topics, ends_group)

    def _publish(self, jobs: list[QueuedWork], topics: frozenset[str], ends_group: bool) -> None:
        try:
            if topics:
                for listener in self._listeners:
                    listener(topics)
        finally:
            loop_state = self._state_of(jobs[0].loop)
            self._answer([job for job in jobs if not (job.long and ends_group)], loop_state)
            if ends_group:
                self._end_group([job for job in jobs if job.long], loop_state)

    def _end_group(self, answered_later: list[QueuedWork], loop_state: _LoopState) -> None:
        """Answer the long works of the previous group, and start the next group.

        `answered_later` are the long works of the group that ends now. They get their answers when the next
        group ends, or at once if no group follows.
        """
        self._answer(loop_state.answered_later, loop_state)
        loop_state.answered_later[:] = answered_later
        loop_state.group_commit.done()
        if not loop_state.group_commit.is_busy:
            self._answer(loop_state.answered_later, loop_state)
            loop_state.answered_later.clear()

    def _answer(self, jobs: list[QueuedWork], loop_state: _LoopState) -> None:
        for job in jobs:
            # If there is no memory, the timer of `pending` settles this job later. Go on with the other jobs.
            with contextlib.suppress(MemoryError):
                job.settle()
                loop_state.pending.remove(job)


def _finish_by_loop(jobs: list[QueuedWork]) -> dict[asyncio.AbstractEventLoop, list[QueuedWork]]:
    """Mark the jobs as finished. Return a dict from each event loop to the jobs that this loop awaits."""
    by_loop: dict[asyncio.AbstractEventLoop, list[QueuedWork]] = {}
    for job in jobs:
        job.finished = True
        by_loop.setdefault(job.loop, []).append(job)
    return by_loop
