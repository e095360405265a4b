"""A sentence names a key as the user has it, also if the config file assigns another key."""

from __future__ import annotations

from ledger_tui.app.application import LedgerApp
from ledger_tui.server.embedded import Address
from ledger_tui.settings.config import Config, Options
from tests.ledger_tui.driving import Driver

KEYS = {"take_back": "f8", "act.restore": "f9,B", "act.deactivate": "f7", "act.finalize": "f6"}


async def test_messages_questions_and_offers_name_the_users_own_keys(own_project: Address) -> None:
    app = LedgerApp(Options(url=own_project.url, key=own_project.key, config=Config(keys=KEYS)))
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        driver = Driver(app, pilot)
        await driver.sees("● online")
        await app.api.write("POST", "/api/users", {"name": "Ada", "email": "ada@example.com"}, "a")
        await driver.press("4", sees="Ada")
        await driver.press("f7", sees="f9 restores the user.")
        await driver.press("y", sees="f8 restores it")
        await driver.press("1", "colon")
        await driver.type("finalize", sees="Invoices: choose a row, then f6")
