"""The program that `forking.Forks` starts: it has imported everything, and forks a process for each command.

A line of JSON on stdin asks for a command: its words, the files for its two streams, and whether it is to
stop before it begins. The answers on stdout are its process id, and, when it has ended, its status.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

import ledger_engine.database.engine
import ledger_engine.server
import ledger_engine.upkeep.backups  # noqa: F401 - so that no command has to import it
from ledger_engine.cli import main

PR_SET_PTRACER, ANYONE = 0x59616D61, -1
WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def begin(out: str, err: str, stopped: bool) -> None:
    """Make this process one like those that a shell starts."""
    os.setsid()
    for number, (file, flags) in enumerate(((os.devnull, os.O_RDONLY), (out, WRITING), (err, WRITING))):
        opened = os.open(file, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    # Some systems let only a parent trace a process.
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(ANYONE), 0, 0, 0)
    if stopped:
        os.kill(os.getpid(), signal.SIGSTOP)


while line := sys.stdin.readline():
    asked = json.loads(line)
    if pid := os.fork():
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    else:
        begin(asked["out"], asked["err"], asked["stopped"])
        main(asked["words"])
