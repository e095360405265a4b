"""The terminal that the dashboard draws on, which can be gone at any moment without a signal."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from textual.drivers.linux_driver import LinuxDriver

_LOOK_EVERY_S = 2.0


class TerminalDriver(LinuxDriver):
    """Textual's driver, which can also quit when the terminal is gone.

    Textual's thread for writing would end with the error of its first write, and after 30 more frames the
    event loop would wait for that thread for ever.

    At each SIGCONT Textual starts threads for input and output. It forgets those that are running, which then
    never end, and neither does the process. SIGCONT comes after SIGSTOP, and also as a terminal closes.

    SIGTSTP and SIGCONT are handled in the next turn of the event loop. A signal interrupts the main thread
    anywhere, also while it holds the lock of the output's queue, on which Textual's handlers would then wait
    for ever.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file: Any = Output(self._file)
        self._suspended = False

    def _sigtstp_application(self, *_: Any) -> None:
        self._handle_soon(super()._sigtstp_application)

    def _sigcont_application(self, *_: Any) -> None:
        if self._auto_restart:  # otherwise it is resumed by the application, which has suspended it
            self._handle_soon(self.resume_application_mode)

    def _handle_soon(self, handler: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(handler)

    def suspend_application_mode(self) -> None:
        super().suspend_application_mode()
        self._suspended = True

    def resume_application_mode(self) -> None:
        """Start if suspended; restart if running, as the shell may have used the terminal meanwhile."""
        if self._is_running:
            if not os.isatty(self.fileno):
                return
            self.suspend_application_mode()
            self._app.call_later(self._app.refresh, layout=True)
        if self._suspended:
            super().resume_application_mode()
            # In the background it does not start: SIGCONT comes again in the foreground.
            self._suspended = not self._is_running

    @property
    def _is_running(self) -> bool:
        reading = self._key_thread
        return reading is not None and reading.is_alive() and not self.exit_event.is_set()


class Output:
    """The stream that is drawn to; what is written after its terminal is gone is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.fileno = stream.fileno

    def write(self, text: str) -> None:
        with self._dropped_without_terminal():
            self._stream.write(text)

    def flush(self) -> None:
        with self._dropped_without_terminal():
            self._stream.flush()

    @contextmanager
    def _dropped_without_terminal(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            if self._stream.isatty():
                raise


def wait_until_it_is_gone() -> None:
    """Wait until stdin is no terminal any more."""
    hangup = select.poll()
    hangup.register(sys.stdin, 0)
    while sys.stdin.isatty():
        reported = hangup.poll(_LOOK_EVERY_S * 1000)
        if any(event & select.POLLHUP for _descriptor, event in reported):
            return
        if reported:  # this system cannot poll a terminal
            time.sleep(_LOOK_EVERY_S)
