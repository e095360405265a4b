"""A few screens are compared letter by letter.

`pytest --snapshot-update` stores them again; then look at the changes.
"""

import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver, until


@pytest.fixture(autouse=True)
def own_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEDGER_TUI_CONFIG", str(tmp_path / "config.toml"))


def fill(server: ContractServer) -> None:
    for name, currency, balance in (
        ("Beans, Berlin", "EUR", 123450),
        ("Tokyo shop", "JPY", 1234),
        ("Kuwait branch", "KWD", -1500),
    ):
        server.add_account(name, currency, balance)
    for number in range(6):
        server.post(
            server.accounts[number % 3], 1000 + number, "debit" if number % 2 else "credit", f"sale {number}"
        )


def steady(text: str) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"127\.0\.0\.1:\d+", lambda found: "127.0.0.1:8700".ljust(len(found.group())), text)
    return "\n".join(line.rstrip() for line in text.splitlines())


async def at_rest(driver: Driver) -> str:
    """Return the screen once the main view is idle and no request is under way."""
    rest = driver.app.dashboard.view._rest
    text, now = None, ""
    while now != text:
        text = now
        await until(lambda: rest is None or not rest._active.is_set())
        await driver.rests()
        await driver.pilot.pause(0.05)
        now = steady(driver.text())
    return now


SCREENS = {
    "accounts": ([], "1–3 of 3"),
    "transactions": (["2", "down"], "1–6 of 6"),
    "a transaction": (["2", "down", "enter"], "→ Its account"),
    "a form": (["2", "n"], "Post a transaction"),
    "no such list": (["3"], "no list of invoices"),
    "help": (["question_mark"], "esc close"),
    "json": (["J"], '"currency"'),
}


@pytest.mark.parametrize("size", [(80, 24), (120, 30)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCREENS)
async def test_a_screen_is_as_it_was(
    server: ContractServer,
    dashboards: Dashboards,
    snapshot: SnapshotAssertion,
    name: str,
    size: tuple[int, int],
) -> None:
    fill(server)
    keys, text = SCREENS[name]
    async with dashboards.open(size) as driver:
        await driver.sees("Kuwait branch", "5,999/6,000")
        for key in keys:
            await driver.press(key)
            await driver.rests()  # a cursor moves only where there are rows
        await driver.sees(text)
        assert await at_rest(driver) == snapshot
