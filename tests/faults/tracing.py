"""Processes of `ledger-engine` under strace.

They are forked (`tests/forking.py`), as importing takes longer than a command, most of all under strace, and
its calls of the system would be counted with those of the command.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.forking import Done, Process
from tests.ledger_engine.waiting import wait_until

STRACE = shutil.which("strace")


def can_trace() -> bool:
    return (
        STRACE is not None
        and not subprocess.run([STRACE, "-f", "-qq", "true"], capture_output=True).returncode
    )


@contextmanager
def traced(pid: int, *options: str) -> Iterator[None]:
    """Have strace trace a process that is running, for that long."""
    with tempfile.TemporaryFile() as file:
        strace = subprocess.Popen([STRACE or "", "-f", *options, "-p", str(pid)], stderr=file)

        def said() -> bytes:
            return os.pread(file.fileno(), 10_000, 0)  # a seek would move where strace writes

        try:
            wait_until(lambda: b"attached" in said() or strace.poll() is not None)
            assert strace.poll() is None, said().decode()
            yield
        finally:
            strace.terminate()  # it lets go of the process
            strace.wait()


@contextmanager
def traced_from_start(pid: int, *options: str) -> Iterator[None]:
    """Have strace trace a process that was started `stopped`, and let that begin."""
    state = Path(f"/proc/{pid}/stat")
    wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")
    with traced(pid, *options):
        os.kill(pid, signal.SIGCONT)
        yield


@dataclass(frozen=True)
class Running:
    """A command whose two streams go to files."""

    process: Process
    out: Path
    err: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """SIGKILL it and what it has started, if it has not ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


class Tracer:
    """Runs commands, whose output it keeps in `folder`, one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, words: Sequence[str], *strace: str) -> Done:
        """Run a command to its end, under strace with these options, if there are any."""
        with self.running(words, *strace) as command:
            command.process.wait()
        return subprocess.CompletedProcess(
            list(words), command.process.wait(), command.out.read_text(), command.err.read_text()
        )

    @contextmanager
    def running(
        self, words: Sequence[str], *strace: str, constants: Mapping[str, float | str] | None = None
    ) -> Iterator[Running]:
        """Start a command, with other `constants` as `Process` has them, and wait for its end afterwards.

        Where something goes wrong meanwhile it is killed.
        """
        out, err = self._folder / "out", self._folder / "err"
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = Process(
                words,
                stdout=to_out,
                stderr=to_err,
                new_session=True,
                stopped=bool(strace),
                constants=constants,
            )
        command = Running(process, out, err)
        with ExitStack() as tracing:
            try:
                if strace:
                    tracing.enter_context(traced_from_start(command.pid, *strace))
                yield command
            except BaseException:
                command.kill()
                raise
            finally:
                process.wait()
