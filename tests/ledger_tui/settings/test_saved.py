"""`--resume` begins where the dashboard of the same connection was left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from ledger_tui import cli
from ledger_tui.app import application as app_module
from ledger_tui.app.application import LedgerApp
from ledger_tui.settings.config import LastPlace, Options, Profile
from ledger_tui.settings.saved import read_last_place, save_last_place
from tests.ledger_tui.contract_server import KEY, ContractServer
from tests.ledger_tui.driving import Driver, until


def test_each_connection_has_its_own_entry(tmp_path: Path) -> None:
    file = tmp_path / "new" / "resume.json"
    left = LastPlace("invoices", {"status": "paid"}, "inv_1", opened=True)
    save_last_place(file, "a", left)
    save_last_place(file, "b", LastPlace("users"))
    assert (read_last_place(file, "a"), read_last_place(file, "b"), read_last_place(file, "c")) == (
        left,
        LastPlace("users"),
        None,
    )
    assert file.stat().st_mode & 0o777 == 0o600
    for number in range(30):
        save_last_place(file, str(number), left)
    assert read_last_place(file, "a") is None
    assert read_last_place(file, "29") == left


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"a": {"kind": 1}}'])
def test_a_broken_file_is_as_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "resume.json"
    file.write_text(text, encoding="utf-8")
    assert read_last_place(file, "a") is None


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    save_last_place(tmp_path / "file" / "resume.json", "a", LastPlace("users"))


class Ended:
    """A dashboard that the user has left at once."""

    failure = ""
    return_code = 0

    def __init__(self, options: Options, following: Options | None) -> None:
        self.options = options
        self.next_options = following
        self.last_place = LastPlace("invoices")


def test_each_profile_of_a_run_begins_where_it_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_file = str(tmp_path / "config.toml")
    first, second = (
        Options(profile=Profile(name, "http://h"), config_file=config_file) for name in ("a", "b")
    )
    save_last_place(tmp_path / "resume.json", second.connection, LastPlace("users"))
    opened: list[Ended] = []

    def open_app(options: Options) -> Ended:
        opened.append(Ended(options, None if opened else second))
        return opened[-1]

    async def run(_app: Ended) -> None:
        pass

    monkeypatch.setenv("TEXTUAL_DRIVER", "none")  # no terminal is needed
    monkeypatch.setattr(app_module, "LedgerApp", open_app)
    monkeypatch.setattr(cli, "_collect_rarely", lambda: None)
    monkeypatch.setattr(cli, "_run", run)
    cli._draw(first, resume=True)
    assert [each.options.resume for each in opened] == [None, LastPlace("users")]
    opened.clear()
    cli._draw(first, resume=False)
    assert [each.options.resume for each in opened] == [None, None]


@pytest.mark.parametrize("demo", [Options(demo=True), Options(url="http://h", of_demo=True)])
def test_no_place_in_a_demo_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: Options) -> None:
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    options = replace(demo, config_file=str(tmp_path / "config.toml"))
    cli._save_last_place(options, cast(app_module.LedgerApp, Ended(options, None)))
    assert not (tmp_path / "resume.json").exists()


@pytest.mark.dashboard
async def test_the_screen_the_filter_and_the_object_are_there_again(server: ContractServer) -> None:
    account = server.add_account("Till")
    for amount in (100, 200):
        server.post(account, amount, "debit")
    server.add_account("Safe")
    app = LedgerApp(Options(url=server.url, key=KEY))
    async with app.run_test() as pilot:
        driver = Driver(app, pilot)
        await driver.sees("Safe")
        await driver.press("down", "enter", sees="→ Its transactions")
        app.exit()
    place = app.last_place
    assert place == LastPlace("accounts", {}, account["id"], opened=True)
    for begin, seen in (
        (place, ["→ Its transactions", "Till"]),
        (LastPlace("transactions", {"type": "debit", "old": "x"}), ["type:debit", "−2.00"]),
        (LastPlace("overview"), ["Overview"]),
        (LastPlace("nothing"), ["Accounts", "Safe"]),
    ):
        app = LedgerApp(Options(url=server.url, key=KEY, resume=begin))
        async with app.run_test() as pilot:
            await Driver(app, pilot).sees(*seen)
            await until(lambda: app.session.limit)  # noqa: B023


@pytest.mark.dashboard
async def test_the_cursor_is_on_its_row_again(server: ContractServer) -> None:
    accounts = [server.add_account(f"Account {number}") for number in range(5)]
    resume = LastPlace("accounts", {}, accounts[2]["id"])
    app = LedgerApp(Options(url=server.url, key=KEY, resume=resume))
    async with app.run_test() as pilot:
        driver = Driver(app, pilot)
        await until(
            lambda: (driver.view.model.window.current or {}).get("id") == accounts[2]["id"], "the row"
        )
        assert not driver.view.opened
        app.exit()
    assert app.last_place == resume
