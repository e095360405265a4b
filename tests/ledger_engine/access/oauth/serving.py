"""A server process with an app and a user, whose output goes to a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher

from ledger_engine.access.oauth import passwords
from ledger_engine.core.settings import Location
from tests.commands import answer_of_command
from tests.forking import Done, Process, run
from tests.ledger_engine.waiting import wait_until

EMAIL = "ada@example.com"
PASSWORD = "correct horse battery"
PATIENCE_S = 60


@contextmanager
def cheap_passwords() -> Iterator[None]:
    """Make hashing passwords in this process take microseconds, in place of a tenth of a second.

    A hash names what it costs, so a server checks one that was made here as cheaply.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        patch.setattr(passwords, "_DUMMY_HASH", passwords._dummy_hash())
        yield


@dataclass
class Serving:
    """`ledger-engine serve`, from `start` to `stop`; its output is in `folder`.

    Its database is a file in the folder, unless another is given.
    """

    folder: Path
    database: Location | None = None
    url: str = ""
    process: Process | None = None

    @property
    def said(self) -> str:
        """Return the process's output, on stdout and stderr."""
        return (self.folder / "said.log").read_text(encoding="utf-8")

    def start(self, *options: str) -> None:
        words = self._on_the_database("serve", "--port", "0", *options)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with (self.folder / "said.log").open("wb") as said:
            self.process = Process(words, stdout=said, stderr=said, environment=environment)
        process = self.process
        wait_until(lambda: "Listening on " in self.said or process.poll() is not None)
        assert process.poll() is None, self.said
        self.url = self.said.partition("Listening on ")[2].split()[0]

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(timeout=PATIENCE_S) == 0, self.said

    def cli(self, *arguments: str, stdin: str = "") -> Any:
        """Run a command on the database and return the JSON it prints."""
        return answer_of_command(self._location, *arguments, stdin=stdin)

    def run(self, *arguments: str, stdin: str = "") -> Done:
        return run(self._on_the_database(*arguments), input=stdin, timeout=PATIENCE_S)

    def make_user(self, name: str = "Ada Lind", email: str = EMAIL, role: str = "admin") -> str:
        """Create a user of the first project's test mode with the password PASSWORD; return the key used."""
        key: str = self.cli("keys", "create", "--mode", "test", "--role", "owner")["key"]
        answer = httpx.post(
            f"{self.url}/api/users",
            json={"name": name, "email": email, "role": role},
            headers={"Authorization": f"Bearer {key}"},
        )
        assert answer.status_code == 201, answer.text
        with cheap_passwords():
            self.cli("users", "set-password", email, "--password-stdin", stdin=PASSWORD)
        return key

    def _on_the_database(self, *arguments: str) -> list[str]:
        return [*arguments, "--database", str(self._location)]

    @property
    def _location(self) -> Location:
        return self.database or self.folder / "ledger.db"
