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
    event loop would wait for that thread for ever. With the end of a terminal comes SIGCONT too, as after
    SIGSTOP. At each SIGCONT Textual starts threads for input and output, and forgets those that are running:
    they would never end, nor would the process.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file: Any = Output(self._file)
        self._started = False
        self._suspended = False

    def start_application_mode(self) -> None:
        thread_before = self._key_thread
        start: Callable[[], None] = super().start_application_mode  # which has no types
        start()
        # In the background it does not start, and is asked to again in the foreground.
        self._started = self._key_thread is not thread_before
        self._suspended = self._suspended and not self._started

    def stop_application_mode(self) -> None:
        super().stop_application_mode()
        self._started = False

    def suspend_application_mode(self) -> None:
        super().suspend_application_mode()
        self._suspended = True

    def resume_application_mode(self) -> None:
        """Start again what was suspended, and anew what runs: the shell may have used the terminal."""
        if self._started:
            if not os.isatty(self.fileno):
                return
            self.suspend_application_mode()
            self._app.call_later(self._app.refresh, layout=True)
        if self._suspended:
            super().resume_application_mode()


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
