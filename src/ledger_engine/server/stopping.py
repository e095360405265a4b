"""When a server stops: on a signal, or with whoever started it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any


class Stop:
    """Whether the server is to stop (`asked`), and whether it is to stop at once (`hurry`)."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()

    def on_signals(self) -> None:
        """Stop on the first signal, and hurry on the second."""
        loop = asyncio.get_running_loop()
        signals = [signal.SIGTERM, signal.SIGINT]
        # nohup ignores SIGHUP; then it stays ignored.
        if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signals.append(signal.SIGHUP)

        def note_signal() -> None:
            (self.hurry if self.asked.is_set() else self.asked).set()

        for number in signals:
            if sys.platform == "win32":
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(note_signal))
            else:
                loop.add_signal_handler(number, note_signal)

    def at_end_of_stdin(self) -> None:
        """Stop when stdin ends.

        The parent process has the other end of it, which closes when the parent ends, in whichever way.
        """
        loop = asyncio.get_running_loop()

        def read_to_the_end() -> None:
            with contextlib.suppress(OSError):
                while os.read(0, 4096):
                    pass
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server has stopped already
                loop.call_soon_threadsafe(self.asked.set)

        threading.Thread(target=read_to_the_end, name="stdin", daemon=True).start()


async def first_of(task: asyncio.Future[None], event: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until the task is done, the event is set, or so many seconds have passed."""
    waiting = asyncio.create_task(event.wait())
    both: set[asyncio.Future[Any]] = {task, waiting}
    await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes the event loops of a server."""
    if sys.platform == "win32":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop
