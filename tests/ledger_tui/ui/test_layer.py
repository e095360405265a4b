"""While a dialog lies over a changing list, the dashboard writes little to its terminal."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from select import select

import httpx
import pytest

from ledger_tui.server.embedded import Address

PATIENCE_SECONDS = 60.0
_SIZE = struct.pack("HHHH", 40, 120, 0, 0)


class Written:
    """A dashboard on a terminal, and all that it has written to it."""

    def __init__(self, address: Address) -> None:
        self._ours, self._its = os.openpty()
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, _SIZE)
        self.program = subprocess.Popen(
            [sys.executable, "-m", "ledger_tui", "--url", address.url, "--key", address.key],
            stdin=self._its,
            stdout=self._its,
            stderr=self._its,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        self.text = ""

    def press(self, keys: str, sees: str) -> None:
        """Press keys, and wait until a text is written."""
        before = len(self.text)
        os.write(self._ours, keys.encode())
        self.waits(sees, before)

    def waits(self, for_text: str, since: int) -> None:
        """Read until a text was written after so many characters."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while for_text not in self.text[since:]:
            assert time.monotonic() < deadline, f"{for_text!r} is never written"
            if select([self._ours], [], [], 1)[0]:
                self.text += os.read(self._ours, 65_536).decode(errors="replace")

    def close(self) -> None:
        self.program.kill()
        self.program.wait()
        os.close(self._ours)
        os.close(self._its)


@contextmanager
def written_by(address: Address) -> Iterator[Written]:
    dashboard = Written(address)
    try:
        yield dashboard
    finally:
        dashboard.close()


@pytest.mark.process
def test_a_list_that_changes_behind_a_dialog_is_written_no_more_than_twice_as_much(
    own_project: Address,
) -> None:
    headers, numbers = {"Authorization": f"Bearer {own_project.key}"}, count()

    def add(path: str, **body: object) -> str:
        key = {"Idempotency-Key": f"written-{next(numbers)}"}
        answer = httpx.post(f"{own_project.url}{path}", json=body, headers=headers | key)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    till = add("/v1/accounts", name="Till", currency="EUR")

    def post(description: str) -> None:
        add("/v1/transactions", account=till, amount=100, type="credit", description=description)

    for _row in range(40):
        post("early")

    with written_by(own_project) as dashboard:

        def written_for_four_rows(name: str) -> int:
            before = len(dashboard.text)
            for number in range(4):
                post(f"{name}{number}")
                dashboard.waits(f"{name}{number}", before)
            return len(dashboard.text) - before

        dashboard.waits("online", 0)
        dashboard.press("2", sees="early")
        of_the_list = written_for_four_rows("list")
        dashboard.press("\x14", sees="Theme")  # ctrl+t
        behind_a_dialog = written_for_four_rows("behind")
        assert behind_a_dialog <= 2 * of_the_list
