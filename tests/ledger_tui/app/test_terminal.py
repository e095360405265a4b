"""The end of the terminal, and of the dashboard: it quits whenever it is asked to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from ledger_tui.app import application as app
from ledger_tui.app.application import LedgerApp
from ledger_tui.app.terminal import Output
from ledger_tui.settings.config import Options
from ledger_tui.settings.saved import Left
from tests.ledger_tui.contract_server import KEY, ContractServer

MORE_THAN_IT_TAKES = "x" * 1_000_000


@pytest.fixture
def ends() -> Iterator[tuple[TextIO, TextIO]]:
    """The terminal's own end, and the end that a program draws on."""
    ours, its = os.openpty()
    os.set_blocking(its, False)
    with open(ours, "w") as terminal, open(its, "w") as drawn_on, open(os.devnull, "w") as nowhere:
        yield terminal, drawn_on
        os.dup2(nowhere.fileno(), its)  # to close is to write what is left


def test_what_is_written_after_the_terminal_is_gone_is_dropped(ends: tuple[TextIO, TextIO]) -> None:
    terminal, drawn_on = ends
    output = Output(drawn_on)
    output.write("before")
    output.flush()
    terminal.close()
    for _ in range(3):
        output.write("after")
        output.flush()


def test_another_error_of_writing_is_not_hidden(ends: tuple[TextIO, TextIO]) -> None:
    _terminal, drawn_on = ends
    output = Output(drawn_on)
    with pytest.raises(BlockingIOError):
        output.write(MORE_THAN_IT_TAKES)


class Impatient(LedgerApp):
    CSS_PATH = Path(app.__file__).parents[1] / "ui" / "styles" / "app.tcss"

    def on_mount(self) -> None:
        self.exit()  # its screen has no view yet


@pytest.mark.dashboard
async def test_a_quit_while_the_dashboard_begins_ends_it_once_it_has_begun(server: ContractServer) -> None:
    dashboard = Impatient(Options(url=server.url, key=KEY))
    await dashboard.run_async(headless=True)
    assert (dashboard.return_code, dashboard.left) == (0, Left("accounts"))
