"""The terminal that the dashboard draws on. It can disappear at any moment without a signal."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Paste
from textual.message import Message

_LOOK_EVERY_S = 2.0
_ESC = "\x1b"
_SEQUENCE = "[O"  # what a terminal sends for a key like ↑ begins with esc and one of these characters
_KEY_AFTER_ESC = re.compile(rf"(?s){_ESC}(?=[^{_ESC}{re.escape(_SEQUENCE)}])")
_PASTE, _END_OF_PASTE = f"{_ESC}[200~", f"{_ESC}[201~"
_BEGUN_PASTE = re.compile(rf"{_ESC}\[2(?:0(?:0)?)?\Z")  # a read can end in the middle of `_PASTE`


class KeyParser(XTermParser):
    """Textual's parser, changed so that esc and a key right after it are two keys, and a paste is one text.

    Textual reads esc and the key as one key with alt or ctrl. If one read contains esc, a key and esc,
    Textual turns the first esc into `^`. A slow connection delivers several keys in one read, so keys that
    the user pressed would be lost. The dashboard does not need these combined keys: it uses no letter with
    alt.

    If a pasted text contains esc, Textual drops the characters after esc, or reads them as keys.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._after_escape = False
        self._begun_paste = ""  # the beginning of `_PASTE` at the end of the last read
        self._pasted: str | None = None  # the pasted text so far; None if no paste is under way

    def feed(self, data: str) -> Iterable[Message]:
        if not data:
            yield from super().feed(data)
            return
        data = self._begun_paste + data
        begun = _BEGUN_PASTE.search(data) if self._pasted is None else None
        self._begun_paste = begun[0] if begun else ""
        data = data[: len(data) - len(self._begun_paste)]
        while data:
            if self._pasted is None:
                keys, paste, data = data.partition(_PASTE)
                yield from self._feed_keys(keys)
                if paste:
                    yield from self._take_escape() if self._after_escape else ()
                    self._after_escape, self._pasted = False, ""
            else:
                searched = max(0, len(self._pasted) - len(_END_OF_PASTE))
                self._pasted += data
                end = self._pasted.find(_END_OF_PASTE, searched)
                if end < 0:
                    return
                data = self._pasted[end + len(_END_OF_PASTE) :]
                text, self._pasted = self._pasted[:end], None
                yield Paste(text)

    def _feed_keys(self, data: str) -> Iterable[Message]:
        if not data:
            return
        if self._after_escape and data[:1] not in (_ESC, *_SEQUENCE):
            yield from self._take_escape()
        self._after_escape = data.endswith(_ESC)
        fed = 0
        for piece in _KEY_AFTER_ESC.finditer(data):
            yield from super().feed(data[fed : piece.end()])
            yield from self._take_escape()
            fed = piece.end()
        if fed < len(data):
            yield from super().feed(data[fed:])

    def _take_escape(self) -> Iterable[Message]:
        """Report the preceding esc as a key of its own, as Textual does when a pause follows esc."""
        if self._timeout_time is not None:
            self._timeout_time = 0.0
        yield from self.tick()


class TerminalDriver(LinuxDriver):
    """Textual's driver, changed so that the dashboard can quit when the terminal is gone.

    `Output` drops text for a terminal that is gone. Otherwise Textual's thread for writing would end with the
    error of its first write. The thread's queue holds 30 texts, and nothing would empty it any more. So the
    event loop would wait for ever to add the next text.

    `resume_application_mode` ends the running threads for input and output before it starts new threads.
    Textual alone starts new threads at each SIGCONT and forgets the running threads. The forgotten threads
    never end, so the process never ends. The system sends SIGCONT not only after SIGSTOP, but also when a
    terminal closes.

    This driver handles SIGTSTP and SIGCONT in the next pass of the event loop, because a signal can interrupt
    the main thread anywhere. If the main thread holds the lock of the output queue at that time, Textual's
    handlers would wait for this lock for ever.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file: Any = Output(self._file)
        self._is_suspended = False

    def run_input_thread(self) -> None:
        # Textual's method creates the parser by this name, and offers no other way to replace it.
        vars(linux_driver)["XTermParser"] = KeyParser
        super().run_input_thread()

    def _sigtstp_application(self, *_: Any) -> None:
        self._handle_soon(super()._sigtstp_application)

    def _sigcont_application(self, *_: Any) -> None:
        if self._auto_restart:  # otherwise the application itself resumes the driver that it has suspended
            self._handle_soon(self.resume_application_mode)

    def _handle_soon(self, handler: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(handler)

    def suspend_application_mode(self) -> None:
        super().suspend_application_mode()
        self._is_suspended = True

    def resume_application_mode(self) -> None:
        """Start the driver if it is suspended. Restart it if it is running, because the shell may have used
        the terminal.
        """
        if self._is_running:
            if not os.isatty(self.fileno):
                return
            self.suspend_application_mode()
            self._app.call_later(self._app.refresh, layout=True)
        if self._is_suspended:
            super().resume_application_mode()
            # Textual does not start the driver of a process in the background. The next SIGCONT, in the
            # foreground, calls this method again.
            self._is_suspended = not self._is_running

    @property
    def _is_running(self) -> bool:
        reading = self._key_thread
        return reading is not None and reading.is_alive() and not self.exit_event.is_set()


class Output:
    """The stream to draw on. After the terminal is gone, `write` and `flush` have no effect."""

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


def wait_until_terminal_is_gone() -> None:
    """Wait until stdin is no longer a terminal."""
    hangup = select.poll()
    hangup.register(sys.stdin, 0)
    while sys.stdin.isatty():
        events_reported = hangup.poll(_LOOK_EVERY_S * 1000)
        if any(event & select.POLLHUP for _descriptor, event in events_reported):
            return
        if events_reported:  # another event than a hangup: this system cannot poll a terminal, so sleep
            time.sleep(_LOOK_EVERY_S)
