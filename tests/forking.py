"""Forks processes of `ledger-engine` from a process that has imported all modules.

Importing takes nine tenths of the CPU time of starting a server or running a command. In all other ways a
forked process is like one that a shell starts: its streams, environment, signals, files and end.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

FORKER = Path(__file__).with_name("forker.py")
Done = subprocess.CompletedProcess[str]
Stream = int | IO[Any] | None


class Process:
    """A running `ledger-engine`. Names and meanings are those of `subprocess.Popen` with text streams.

    The difference: each stream is a pipe, a file, or (None) the null device.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        environment: Mapping[str, str] | None = None,
        new_session: bool = False,
        stopped: bool = False,
        clock_ahead_s: int = 0,
        constants: Mapping[str, float | str] | None = None,
        open_files_max: int | None = None,
        program: str | None = None,
        forker: socket.socket | None = None,
    ) -> None:
        """Start the process; with `stopped` it starts as if SIGSTOP had stopped it before it did anything.

        Its time of day is `clock_ahead_s` seconds ahead. `constants` are other values for constants of the
        program, by names like `ledger_engine.store.threaded.ANSWER_S`. It may open `open_files_max` files, or
        as many as this process. It runs `program`, the text of another program, if there is one. `forker` is
        the socket of the forker to ask, by default this process's own forker.
        """
        self.args = list(words)
        self.returncode: int | None = None
        asked = {
            "words": self.args,
            "environment": dict(os.environ if environment is None else environment),
            "folder": os.getcwd(),
            "new_session": new_session,
            "stopped": stopped,
            "clock_ahead_s": clock_ahead_s,
            "constants": dict(constants or {}),
            "open_files": [open_files_max] * 2
            if open_files_max
            else resource.getrlimit(resource.RLIMIT_NOFILE),
            "program": program,
        }
        with ExitStack() as closing:
            theirs, ours = [], []
            for number, stream in enumerate((stdin, stdout, stderr)):
                inner, outer = _pipe(number) if stream == subprocess.PIPE else (_descriptor(stream), None)
                if stream is None or outer is not None:
                    closing.callback(os.close, inner)
                theirs.append(inner)
                ours.append(outer)
            self._fate, told = os.pipe()
            closing.callback(os.close, told)
            asking = forker_socket() if forker is None else forker
            socket.send_fds(asking, [json.dumps(asked).encode()], [*theirs, told])
        self.stdin, self.stdout, self.stderr = ours
        self.pid = int(self._line())

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._fate], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._line())
            os.close(self._fate)
        return self.returncode

    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Write `input`, read both streams to their ends, and wait for the end of the process."""
        with ThreadPoolExecutor(2) as threads:
            read = [threads.submit(_rest, stream) for stream in (self.stdout, self.stderr)]
            if self.stdin is not None and not self.stdin.closed:
                with suppress(BrokenPipeError):
                    self.stdin.write(input or "")
                    self.stdin.close()
            out, err = (each.result(timeout) for each in read)
        self.wait(timeout)
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            part = os.read(self._fate, 1)
            if not part:
                raise RuntimeError("the process that others are forked from has ended")
            line += part
        return line


def run(words: Sequence[str], *, input: str = "", timeout: float | None = None, **options: Any) -> Done:
    """Run a command to its end, as `subprocess.run` does with `capture_output`."""
    pipe = subprocess.PIPE
    process = Process(words, stdin=pipe, stdout=pipe, stderr=pipe, **options)
    try:
        out, err = process.communicate(input, timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(list(words), process.wait(), out, err)


def _rest(stream: IO[str] | None) -> str:
    if stream is None or stream.closed:
        return ""
    with stream:
        return stream.read()


def _pipe(number: int) -> tuple[int, IO[str]]:
    """Make a pipe for a stream; return the end for the process, and the file at the other end."""
    reading, writing = os.pipe()
    return (reading, open(writing, "w")) if number == 0 else (writing, open(reading))


def _descriptor(stream: Stream) -> int:
    if stream is None:
        return os.open(os.devnull, os.O_RDWR)
    return stream if isinstance(stream, int) else stream.fileno()


@cache
def forker_socket() -> socket.socket:
    """Return the socket of the forker, which is started once."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen([sys.executable, str(FORKER)], stdin=theirs)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
