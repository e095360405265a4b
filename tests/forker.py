"""The program from which `forking` forks processes of `ledger-engine`. It has imported all modules.

Its stdin is a socket. Each message asks for a process: it describes the process in JSON, and carries the
descriptors of its three streams and of a pipe. This program writes the new process id to the pipe in one
line, and the exit status in another.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import resource
import selectors
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

# Imported here, so that no forked process has to import it. One is beside this program.
import platformdirs.unix  # noqa: F401
import sqlite_utils.migrations  # noqa: F401
import uvloop  # noqa: F401
from made_once import compile_routes_once

import ledger_engine.http.app
import ledger_engine.server.listening
import ledger_engine.server.serving
import ledger_engine.store.postgres.database
import ledger_engine.store.sqlite.database
import ledger_engine.store.sqlite.snapshot
import ledger_engine.upkeep.backups
from ledger_engine.cli import main

MESSAGE_MAX = 1_000_000
DESCRIPTORS_MAX = 4
# Imported once the first process is asked for that needs them, as few do: by a word of its command line.
NEEDED_BY = {
    **{
        word: ["ledger_engine.cli.listening", "httpcore", "anyio._backends._asyncio"]
        for word in ("listen", "tail", "api", "post", "trigger")
    },
    "profiles": [
        "ledger_tui.cli",
        "ledger_tui.settings.saved",
        "ledger_tui.settings.secret_store",
    ],
    "--demo": ["ledger_engine.tools.seed.demo", "ledger_engine.tools.seed.traffic", "httpcore"],
}
PR_SET_PTRACER, ANYONE = 0x59616D61, -1


class Forker:
    """Forks a process for each message on the socket."""

    def __init__(self) -> None:
        self._asking = socket.socket(fileno=os.dup(0))
        self._ended, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno())
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._asking, selectors.EVENT_READ)
        self._selector.register(self._ended, selectors.EVENT_READ)
        self._pipes: dict[int, int] = {}

    def run(self) -> dict[str, Any] | None:
        """In each forked process, return its description.

        In the forker, return None when nobody is left to ask.
        """
        while True:
            ready = [key.fileobj for key, _events in self._selector.select()]
            if self._ended in ready:
                self._ended.recv(MESSAGE_MAX)
                self._report_the_ended()
            if self._asking in ready:
                message, descriptors, _, _ = socket.recv_fds(self._asking, MESSAGE_MAX, DESCRIPTORS_MAX)
                if not message:
                    return None
                if asked := self._fork(json.loads(message), descriptors):
                    return asked

    def _fork(self, asked: dict[str, Any], descriptors: list[int]) -> dict[str, Any] | None:
        """Fork.

        Return None in this process, and the description in the new process, which closes all other files.
        """
        *asked["streams"], pipe = descriptors
        for word in NEEDED_BY.keys() & asked["words"]:
            for module in NEEDED_BY[word]:
                importlib.import_module(module)
        if pid := os.fork():
            self._pipes[pid] = pipe
            with suppress(BrokenPipeError):  # the process that asked was killed
                os.write(pipe, b"%d\n" % pid)
            for descriptor in asked["streams"]:
                os.close(descriptor)
            return None
        signal.set_wakeup_fd(-1)
        for each in (self._selector, self._ended, self._wake, self._asking):
            each.close()
        for descriptor in (pipe, *self._pipes.values()):
            os.close(descriptor)
        return asked

    def _report_the_ended(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                pipe = self._pipes.pop(pid)
                with suppress(BrokenPipeError):  # nobody waits for it
                    os.write(pipe, b"%d\n" % os.waitstatus_to_exitcode(status))
                os.close(pipe)


def set_forward(seconds: int) -> None:
    """Set the time of day forward for this process; the clock that measures waits stays."""
    time_of_day, nanoseconds = time.time, time.time_ns
    time.time = lambda: time_of_day() + seconds
    time.time_ns = lambda: nanoseconds() + seconds * 1_000_000_000


def set_constants(constants: dict[str, float | str]) -> None:
    """Set constants, named with their modules. Raises AttributeError for a name that does not exist."""
    for name, value in constants.items():
        module, _, constant = name.rpartition(".")
        home = importlib.import_module(module)
        getattr(home, constant)
        setattr(home, constant, value)


def begin(asked: dict[str, Any]) -> None:
    """Make this process like one that a shell has started."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would be ignored
    if asked["new_session"]:
        os.setsid()
    resource.setrlimit(resource.RLIMIT_NOFILE, tuple(asked["open_files"]))
    for number, stream in enumerate(asked["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["-c" if asked["program"] else "ledger-engine", *asked["words"]]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    out, err = (io.BufferedWriter(io.FileIO(number, "w", closefd=False)) for number in (1, 2))
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdout = io.TextIOWrapper(out, write_through=at_once, line_buffering=at_once)
    sys.stderr = io.TextIOWrapper(err, errors="backslashreplace", line_buffering=True)
    # Some systems let only a parent trace a process.
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(ANYONE), 0, 0, 0)
    if asked["clock_ahead_s"]:
        set_forward(asked["clock_ahead_s"])
    set_constants(asked["constants"])
    if asked["stopped"]:
        os.kill(os.getpid(), signal.SIGSTOP)


def prepare() -> None:
    """Do the work once that each process would repeat, and prepare the memory so that processes share it."""
    compile_routes_once()
    engine = Mock()  # none of it is used without a request
    ledger_engine.http.app.create_app(engine, wall_clock=time.time)
    gc.collect()
    gc.freeze()


def run_to_the_end(asked: dict[str, Any]) -> None:
    """Run the program, and end like Python, but leave the memory to the system.

    Python would take all modules apart and so write to shared memory, which costs more than half of a
    server's start and stop.
    """
    try:
        if asked["program"]:
            exec(asked["program"])
        else:
            main(asked["words"])
        status = 0
    except SystemExit as exit:
        if not isinstance(exit.code, int | None):
            raise
        status = exit.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what is found to be unfinished says so
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(status)  # Python says so, and may change the status
    os._exit(status)


prepare()
if asked := Forker().run():
    begin(asked)
    run_to_the_end(asked)
