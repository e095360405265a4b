"""The server as a process that can be killed and started again on the same file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ledger_engine.core.settings import Location
from tests.commands import answer_of_command, run_command
from tests.faults.tracing import traced_from_start
from tests.forking import Process, run
from tests.made_once import put_empty_ledger

PATIENCE_S = 60
NO_LIMIT = "1000000000"


class CouldNotServe(Exception):
    """The server ended before it was ready."""


class Server:
    """`ledger-engine serve` on one database, run by the command `under`, if that is set.

    `constants` has other values for constants of the program, `open_files_max` is how many files it may have
    open, `program` is the program that it runs (`tests/forking.py`), `log` is a file to log to, and `strace`
    has the options of strace under which it runs, if there are any; none of them with `under`.
    """

    def __init__(
        self,
        database: Location,
        *,
        options: Sequence[str] = (),
        clock_ahead_s: int = 0,
        constants: Mapping[str, float] | None = None,
        open_files_max: int | None = None,
        program: str | None = None,
        log: Path | None = None,
    ) -> None:
        self.database = database
        self.clock_ahead_s = clock_ahead_s
        self.constants = constants
        self.open_files_max = open_files_max
        self.program = program
        self.log = log
        self.under: list[str] = []
        self.options = list(options)
        self.strace: list[str] = []
        self.url = ""
        self._process: Process | subprocess.Popen[str] | None = None
        self._tracing = ExitStack()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def start(self) -> None:
        """Start it, at first on a ledger with nothing in it: to make that is not under test here."""
        if isinstance(self.database, Path) and not self.database.exists():
            put_empty_ledger(self.database)
        words = ["serve", "--port", "0", "--database", str(self.database), *self.options]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if self.under:
            self._process = subprocess.Popen(
                [*self.under, sys.executable, "-m", "ledger_engine", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment,
                start_new_session=True,
            )
        else:
            self._process = self._forked(words, environment)
            if self.strace:
                self._tracing.enter_context(traced_from_start(self._process.pid, *self.strace))
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("Listening on "):
                self.url = line.removeprefix("Listening on ").strip()
                return
        status = self._process.wait()
        self._tracing.close()
        self._process = None
        raise CouldNotServe(f"the server ended with {status} before it could serve")

    def _forked(self, words: list[str], environment: Mapping[str, str]) -> Process:
        with open(os.devnull if self.log is None else self.log, "a") as log:
            return Process(
                words,
                stdout=subprocess.PIPE,
                stderr=log,
                environment=environment,
                new_session=True,
                clock_ahead_s=self.clock_ahead_s,
                constants=self.constants,
                open_files_max=self.open_files_max,
                program=self.program,
                stopped=bool(self.strace),
            )

    def kill(self) -> None:
        """SIGKILL: nothing is finished, nothing is closed."""
        process = self._process
        if process is None:
            return
        self._process = None
        with suppress(ProcessLookupError):  # it and all that it has started have ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=PATIENCE_S)
        self._tracing.close()
        if process.stdout is not None:
            process.stdout.close()

    def stop(self) -> int:
        """SIGTERM; gives the exit status."""
        assert self._process is not None
        process, self._process = self._process, None
        process.terminate()
        status = process.wait(timeout=PATIENCE_S)
        self._tracing.close()
        if process.stdout is not None:
            process.stdout.close()
        return status

    def cli(self, *arguments: str) -> Any:
        """Run a command of `ledger-engine` on the database and give the JSON it prints."""
        return answer_of_command(self.database, *arguments)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run([*arguments, "--database", str(self.database), "--json"], timeout=PATIENCE_S)

    def make_key(self) -> str:
        """A key of a project that no limit of requests slows down."""
        limits = ("--plan", "enterprise", "--rate-limit", NO_LIMIT, "--burst", NO_LIMIT)
        project = self.cli("projects", "create", "Faults", *limits)
        key: str = self.cli("keys", "create", "--project", project["id"], "--mode", "test")["key"]
        return key

    def assert_books_are_right(self) -> None:
        """What `ledger-engine verify` says, with the server running or not."""
        done = run_command(self.database, "verify")
        assert done.exit_code == 0, (done.output, done.exception)
