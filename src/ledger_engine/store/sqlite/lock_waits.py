"""SQLite's waits for locks, which end early once reading is blocked.

After the system has failed to release a lock of the log's index, SQLite takes it for held until this process
has no connection open. It then tries a hundred times to begin to read, and sleeps for ten seconds in all. The
error that ends this has all connections closed; a signal ends a sleep, so that the error comes at once.

See docs/design/026-locks-that-were-not-released.md.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

READ_S = 0.5  # to begin to read takes microseconds: no other process has a lock that it waits for
WRITE_S = 6  # longer than SQLite waits for another process that writes (`connection.BUSY_TIMEOUT_MS`)
LOOKED_EVERY_S = 0.25
SIGNALLED_EVERY_S = 0.002


class LockWaits:
    """The threads of this process that may be waiting for a lock of one file.

    A thread that reads and waits for too long is a sign that the writer waits in vain too: then all of them
    get signals. Only the main thread can have signals end a sleep, so without it nothing ends early.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}  # by thread, when it has waited for too long
        self._lock = threading.Lock()
        self._ended = threading.Event()
        if sys.platform != "win32":
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGURG, lambda *_: None)  # ignored signals end no sleep
                signal.siginterrupt(signal.SIGURG, False)  # sleeps end all the same, other calls go on
            threading.Thread(target=self._look, name="ledger-lock-waits", daemon=True).start()

    def begin(self, seconds: float) -> None:
        """End the waits of this thread until `done`, when they take longer."""
        self._until[threading.get_ident()] = time.monotonic() + seconds

    def done(self) -> None:
        """End no waits of this thread any more."""
        with self._lock:  # not while it gets a signal, as a thread that has ended must get none
            del self._until[threading.get_ident()]

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """End the waits of this thread meanwhile, when they take longer."""
        self.begin(seconds)
        try:
            yield
        finally:
            self.done()

    def end(self) -> None:
        """End no waits any more."""
        self._ended.set()

    def _look(self) -> None:
        while not self._ended.wait(SIGNALLED_EVERY_S if self._signalled() else LOOKED_EVERY_S):
            pass

    def _signalled(self) -> bool:
        """Send a signal to each thread if one has waited for too long, and return whether that is so."""
        if sys.platform == "win32":
            return False
        with self._lock:
            waiting = self._until.copy()
            late = min(waiting.values(), default=time.monotonic()) < time.monotonic()
            for thread in waiting if late else ():
                signal.pthread_kill(thread, signal.SIGURG)
        return late
