"""The threads that read for a database: they take works from one queue until they are stopped."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ledger_engine.store.jobs import Job

M = TypeVar("M")  # what else may be put into the queue, to wake the threads


class ReadingThreads(ABC, Generic[M]):
    """Run works in parallel, each in one of so many threads."""

    def __init__(self, threads: int) -> None:
        self._waiting: queue.SimpleQueue[Job | M | None] = queue.SimpleQueue()
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
        self._waiting.put(job)

    def stop(self, limit_s: float) -> None:
        """Finish the accepted works and end the threads; wait for that at most `limit_s` seconds."""
        for _ in self._threads:
            self._waiting.put(None)
        deadline = time.monotonic() + limit_s
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))

    @abstractmethod
    def _run(self) -> None:
        """Run the works in the queue, one after the other, until None is taken from it."""
