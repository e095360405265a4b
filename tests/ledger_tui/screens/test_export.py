"""The export dialog asks for the file, shows the progress, and reports the outcome."""

import csv
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.widgets import Input

from ledger_tui.features.export import whole_path
from tests.ledger_tui.conftest import Dashboards
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver


def fill(server: ContractServer, count: int = 130) -> None:
    account = server.add_account()
    for number in range(count):
        server.post(account, 100 + number, "debit" if number % 2 else "credit", f"sale {number}")


@pytest.fixture
async def filled(server: ContractServer, dashboards: Dashboards) -> AsyncIterator[Driver]:
    fill(server)
    async with dashboards.open() as opened:
        yield opened


async def name(driver: Driver, file: Path) -> None:
    driver.app.screen.query_one(Input).value = str(file)
    await driver.pilot.pause()


async def test_the_filtered_list_is_exported(
    server: ContractServer, dashboards: Dashboards, tmp_path: Path
) -> None:
    fill(server)
    async with dashboards.open((160, 30)) as driver:
        await driver.press("2", "slash")
        await driver.type("type:debit", "enter", sees=("▼ debit", "of 65"))
        await driver.press("ctrl+e", sees=("Export to CSV or JSONL", "Transactions, type:debit"))
        await name(driver, tmp_path / "debits.csv")
        await driver.press("ctrl+s", sees="Exported 65 to ")
    with (tmp_path / "debits.csv").open(encoding="utf-8", newline="") as stream:
        assert {row["type"] for row in csv.DictReader(stream)} == {"debit"}


async def test_a_file_that_is_there_is_replaced_only_when_asked(
    server: ContractServer, dashboards: Dashboards, tmp_path: Path
) -> None:
    fill(server, 3)
    file = tmp_path / "mine.jsonl"
    file.write_text("precious", encoding="utf-8")
    async with dashboards.open() as driver:
        await driver.press("2", "ctrl+e")
        await name(driver, file)
        await driver.press("ctrl+o")  # nothing is known of the file yet
        await driver.press("ctrl+s", sees="already exists. ^o replaces it")
        assert file.read_text(encoding="utf-8") == "precious"
        await driver.press("ctrl+o", sees="Exported 3")
    assert len(file.read_text(encoding="utf-8").splitlines()) == 3


async def test_an_error_is_shown_in_the_dialog(
    server: ContractServer, dashboards: Dashboards, tmp_path: Path
) -> None:
    fill(server, 3)
    async with dashboards.open() as driver:
        await driver.press("2", "ctrl+e")
        await name(driver, tmp_path / "mine.txt")
        await driver.press("ctrl+s", sees="✕ The name must end in .csv or .jsonl.")
        await name(driver, tmp_path / "no" / "folder.csv")
        await driver.press("ctrl+s", sees="✕ Cannot write there: No such file or directory.")
        await driver.press("escape", sees="sale 2")
    assert [*tmp_path.iterdir()] == []


async def test_an_export_that_is_cancelled_leaves_no_file(
    server: ContractServer, filled: Driver, tmp_path: Path
) -> None:
    await filled.press("2", "ctrl+e")
    await name(filled, tmp_path / "mine.csv")
    with server.holding(server.transactions[-100]["id"]):  # the second page
        await filled.press("ctrl+s", sees="100 written; esc cancels and leaves no file.")
        await filled.press("ctrl+o")  # it is being written already
        await filled.press("escape", gone="Export to")
        await filled.rests()
        assert [*tmp_path.iterdir()] == []


async def test_a_name_that_leads_nowhere_is_said_in_the_dialog(bare: Driver, tmp_path: Path) -> None:
    await bare.press("ctrl+e")
    await name(bare, Path("~nobody-at-all/x.csv"))
    await bare.press("ctrl+s", sees="✕ There is no home folder ~nobody-at-all.")
    (tmp_path / "folder.csv").mkdir()
    await name(bare, tmp_path / "folder.csv")
    await bare.press("ctrl+s", sees="✕ folder.csv is a folder.")
    assert "^o replaces it" not in bare.text()


async def test_a_name_typed_in_one_burst_with_enter_is_the_name(
    server: ContractServer, dashboards: Dashboards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    async with dashboards.open() as driver:
        await driver.burst("ctrl+e", "ctrl+u", *"my", "full_stop", *"jsonl", "enter")
        await driver.sees("Exported 0 to ~/my.jsonl")
    assert [file.name for file in tmp_path.iterdir()] == ["my.jsonl"]


async def test_the_dialog_shows_the_whole_path_of_a_bare_name_while_you_type_it(
    server: ContractServer, dashboards: Dashboards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "books"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    async with dashboards.open() as driver:
        await driver.press("ctrl+e", sees="Writes ~/books/accounts.csv.")
        await driver.press("ctrl+u")
        await driver.type("../my.jsonl", sees="Writes ~/my.jsonl.")


def test_a_path_outside_the_home_folder_stays_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert whole_path(Path("/home/adam/x.csv")) == "/home/adam/x.csv"
    assert whole_path(Path("/home/ada/x.csv")) == "~/x.csv"


async def test_a_screen_without_a_list_says_so(bare: Driver) -> None:
    await bare.press("6", "ctrl+e", sees="There is no list here to export.")


async def test_marked_rows_are_exported_alone(
    server: ContractServer, dashboards: Dashboards, tmp_path: Path
) -> None:
    for name in ("Till", "Safe", "Bank"):
        server.add_account(name)
    async with dashboards.open() as driver:
        await driver.press("space", "down", "space", "ctrl+e", "ctrl+u", sees="Accounts, the 2 marked")
        await driver.type(str(tmp_path / "marked.jsonl"), "enter", sees="Exported 2 to")
    names = [json.loads(line)["name"] for line in (tmp_path / "marked.jsonl").read_text().splitlines()]
    assert names == ["Bank", "Till"]
