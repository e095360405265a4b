"""The program that `forking` forks processes of `ledger-engine` from: it has imported everything.

A message on the socket that is its stdin asks for a process: what it is to be, in JSON, with the descriptors
of its three streams and of a pipe, which gets its process id in one line and its exit status in another.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import io
import json
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

# Imported here so that no process has to. The first is beside this program.
import platformdirs.unix  # noqa: F401
import uvloop  # noqa: F401
from made_once import compile_routes_once

import ledger_engine.database.postgres.database
import ledger_engine.database.snapshot
import ledger_engine.database.sqlite
import ledger_engine.http.app
import ledger_engine.server.listening
import ledger_engine.server.serving
import ledger_engine.upkeep.backups
from ledger_engine.cli import main

MESSAGE_MAX = 1_000_000
PR_SET_PTRACER, ANYONE = 0x59616D61, -1


def fork_what_is_asked_for() -> dict[str, Any] | None:
    """Fork the processes asked for, and return in each what it is to be; None when nobody is left to ask."""
    asking = socket.socket(fileno=os.dup(0))
    ended, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    selector = selectors.DefaultSelector()
    selector.register(asking, selectors.EVENT_READ)
    selector.register(ended, selectors.EVENT_READ)
    pipes: dict[int, int] = {}
    while True:
        ready = [key.fileobj for key, _events in selector.select()]
        if ended in ready:
            ended.recv(MESSAGE_MAX)
            report_the_ended(pipes)
        if asking not in ready:
            continue
        message, descriptors, _flags, _address = socket.recv_fds(asking, MESSAGE_MAX, 4)
        if not message:
            return None
        *streams, pipe = descriptors
        if pid := os.fork():
            pipes[pid] = pipe
            os.write(pipe, b"%d\n" % pid)
            for stream in streams:
                os.close(stream)
            continue
        signal.set_wakeup_fd(-1)
        for each in (selector, asking, ended, wake):
            each.close()
        for each in (pipe, *pipes.values()):
            os.close(each)
        return {**json.loads(message), "streams": streams}


def report_the_ended(pipes: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            pipe = pipes.pop(pid)
            with suppress(BrokenPipeError):  # nobody waits for it
                os.write(pipe, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(pipe)


def set_forward(seconds: int) -> None:
    """Set the time of day forward for this process; what measures waits is left alone."""
    time_of_day, nanoseconds = time.time, time.time_ns
    time.time = lambda: time_of_day() + seconds
    time.time_ns = lambda: nanoseconds() + seconds * 1_000_000_000


def set_constants(constants: dict[str, float]) -> None:
    """Set constants, named with their modules; raise AttributeError for one that is not there."""
    for name, value in constants.items():
        module, _, constant = name.rpartition(".")
        home = importlib.import_module(module)
        getattr(home, constant)
        setattr(home, constant, value)


def begin(asked: dict[str, Any]) -> None:
    """Make this process one like those that a shell starts."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would be ignored
    if asked["new_session"]:
        os.setsid()
    for number, stream in enumerate(asked["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["ledger-engine", *asked["words"]]
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
    """Do once what each process would do in the same way, and what lets them share the memory."""
    compile_routes_once()
    engine = Mock()  # none of it is used without a request
    ledger_engine.http.app.create_app(engine, wall_clock=time.time)
    gc.collect()
    gc.freeze()


prepare()
if asked := fork_what_is_asked_for():
    begin(asked)
    main(asked["words"])
