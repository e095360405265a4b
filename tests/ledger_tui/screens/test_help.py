"""The help shows every key of each action, also keys from the config file."""

import pytest

from ledger_tui.app.application import LedgerApp
from ledger_tui.settings.config import Config, Options
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until

MOVES = (
    "↑ k  up",
    "↓ j  down",
    "PgUp ^b  page up",
    "PgDn ^f  page down",
    "Home  the newest",
    " g  sums of postings, or the newest",
    "End G  ",
)


@pytest.mark.parametrize("keys", [{}, {"refresh": "f5,Z"}], ids=["as they are", "one moved"])
async def test_every_key_of_each_action_is_shown(server: ContractServer, keys: dict[str, str]) -> None:
    server.add_account("Till")
    app = LedgerApp(Options(url=server.url, key=server.key, config=Config(keys=keys)))
    async with app.run_test(size=(80, 70)) as pilot:
        driver = Driver(app, pilot)
        await until(lambda: driver.view.model.window.loaded)
        await driver.press("question_mark")
        await driver.sees("esc close", *MOVES, "[  go back", "/  filter", "⏎  open")
        await driver.sees("f5 Z  refresh" if keys else " r  refresh")
