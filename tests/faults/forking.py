"""Commands of `ledger-engine` under strace, each a process forked from one that has imported everything.

Importing takes longer than a command, most of all under strace, and its calls of the system would be counted
with those of the command.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.ledger_engine.waiting import wait_until

STRACE = shutil.which("strace")
FORKER = Path(__file__).with_name("forker.py")
Done = subprocess.CompletedProcess[str]


def can_trace() -> bool:
    return (
        STRACE is not None
        and not subprocess.run([STRACE, "-f", "-qq", "true"], capture_output=True).returncode
    )


@dataclass(frozen=True)
class Running:
    """A command whose two streams go to files."""

    pid: int
    out: Path
    err: Path

    def has_ended(self) -> bool:
        return not Path(f"/proc/{self.pid}").exists()

    def kill(self) -> None:
        """SIGKILL it and what it has started, if it has not ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


class Forks:
    """The process that commands are forked from, one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, str(FORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def run(self, words: Sequence[str], *strace: str) -> Done:
        """Run a command to its end, under strace with these options, if there are any."""
        with self.running(words, *strace) as command:
            pass
        out, err = command.out.read_text(), command.err.read_text()
        return subprocess.CompletedProcess(list(words), self.status, out, err)

    @contextmanager
    def running(self, words: Sequence[str], *strace: str) -> Iterator[Running]:
        """Start a command, and wait for its end afterwards; `status` is what it ended with.

        Where something goes wrong meanwhile it is killed.
        """
        out, err = self._folder / "out", self._folder / "err"
        out.write_bytes(b"")  # for those who look before it has begun
        asked = {"words": list(words), "out": str(out), "err": str(err), "stopped": bool(strace)}
        self._tell(json.dumps(asked))
        command = Running(int(self._answer()), out, err)
        state = Path(f"/proc/{command.pid}/stat")
        with ExitStack() as looking:
            try:
                if strace:
                    wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")
                    looking.enter_context(self.traced(command, *strace))
                    os.kill(command.pid, signal.SIGCONT)
                yield command
            except BaseException:
                command.kill()
                raise
            finally:
                self.status = int(self._answer())

    @contextmanager
    def traced(self, command: Running, *options: str) -> Iterator[None]:
        """Have strace look at a command that is running, for that long."""
        said = self._folder / "strace"
        with said.open("wb") as file:
            strace = subprocess.Popen([STRACE or "", "-f", *options, "-p", str(command.pid)], stderr=file)
        try:
            wait_until(lambda: b"attached" in said.read_bytes() or strace.poll() is not None)
            assert strace.poll() is None, said.read_text()
            yield
        finally:
            strace.terminate()  # it lets go of the command
            strace.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()
