"""The threads that read for a database, one work of each project in turn, until they are stopped."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import Generic, TypeVar

from ledger_engine.store import project_of
from ledger_engine.store.jobs import Job

M = TypeVar("M")  # what else may be put into the queue, to wake the threads


class ReadingThreads(ABC, Generic[M]):
    """Run works in parallel, each in one of so many threads.

    Projects take turns, so that one with many works keeps no other waiting; works without a project are a
    turn of their own.
    """

    def __init__(self, threads: int) -> None:
        # A job in it stands for the one whose turn it is by then.
        self._waiting: queue.SimpleQueue[Job | M | None] = queue.SimpleQueue()
        self._turns: dict[str | None, deque[Job]] = {}  # by project, the next turn first
        self._turns_lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, name=f"ledger-reader-{number}", daemon=True)
            for number in range(threads)
        ]

    def __len__(self) -> int:
        """Return how many works are waiting."""
        return self._waiting.qsize()

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def add(self, job: Job) -> None:
        """Queue a work for one of the threads."""
        with self._turns_lock:
            self._turns.setdefault(project_of(job.work), deque()).append(job)
        self._waiting.put(job)

    def stop(self, limit_s: float) -> None:
        """Finish the accepted works and end the threads; wait for that at most `limit_s` seconds."""
        for _ in self._threads:
            self._waiting.put(None)
        deadline = time.monotonic() + limit_s
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))

    def _next(self) -> Job | M | None:
        """Wait for what is next, and return it."""
        found = self._waiting.get()
        if not isinstance(found, Job):
            return found
        with self._turns_lock:
            project = next(iter(self._turns))
            jobs = self._turns.pop(project)
            job = jobs.popleft()
            if jobs:
                self._turns[project] = jobs  # behind the others
        return job

    @abstractmethod
    def _run(self) -> None:
        """Run the works that `_next` returns, one after the other, until it returns None."""
