"""An export writes a list completely or not at all, with mode 0600, safe for spreadsheets, in the memory
of one page.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger_client.errors import LedgerError
from ledger_tui.client.api import Api
from ledger_tui.client.session import Session
from ledger_tui.client.traffic import Traffic
from ledger_tui.features.export import (
    CannotWrite,
    ExportProgress,
    ExportRequest,
    FileIsThere,
    Format,
    cell,
    columns_of,
    csv_lines,
    csv_row,
    export,
    format_of,
    json_line,
)
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import until
from tests.ledger_tui.line import Line


@pytest.fixture
async def api(server: ContractServer) -> AsyncIterator[Api]:
    opened = Api(Session(), Traffic())
    await opened.open(server.url, server.key)
    yield opened
    await opened.close()


def request_for(
    file: Path, format_: Format = "csv", *, replace: bool = False, **filters: str
) -> ExportRequest:
    return ExportRequest("/v1/transactions", filters, None, file, format_, replace)


def fill(server: ContractServer, count: int) -> None:
    account = server.add_account()
    for number in range(count):
        server.post(account, 100 + number, "debit" if number % 2 else "credit", f"sale {number}")


def quiet(_went: ExportProgress) -> None:
    pass


async def test_every_row_is_there_once_in_order_with_its_progress(
    server: ContractServer, api: Api, tmp_path: Path
) -> None:
    fill(server, 250)
    went: list[ExportProgress] = []
    done = await export(api, request_for(tmp_path / "all.csv"), went.append)
    rows = [*csv.DictReader(io.StringIO((tmp_path / "all.csv").read_text(encoding="utf-8")))]
    assert [row["id"] for row in rows] == [record["id"] for record in reversed(server.transactions)]
    assert [each.rows for each in went] == [100, 200, 250]
    assert done == ExportProgress(250, 250)
    assert (tmp_path / "all.csv").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["all.csv"]


async def test_a_list_that_goes_round_in_a_circle_is_not_written_without_end(
    server: ContractServer, api: Api, tmp_path: Path
) -> None:
    for last in ("txn_3", "txn_2", "txn_1", "txn_3"):
        server.refuse(200, {"data": [{"id": last}], "has_more": True, "next_cursor": last})
    with pytest.raises(LedgerError, match="The pages of this list repeat"):
        await export(api, request_for(tmp_path / "round.csv"), quiet)
    assert os.listdir(tmp_path) == []


async def test_the_filter_is_the_lists(server: ContractServer, api: Api, tmp_path: Path) -> None:
    fill(server, 10)
    await export(api, request_for(tmp_path / "f.jsonl", "jsonl", type="debit"), quiet)
    lines = (tmp_path / "f.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["debit"] * 5
    assert json.loads(lines[0]) == {**server.transactions[-1], "currency": "EUR"}


async def test_a_field_that_comes_on_a_later_page_is_not_lost(
    server: ContractServer, api: Api, tmp_path: Path
) -> None:
    fill(server, 150)
    server.transactions[0]["note"] = "=1+1"
    await export(api, request_for(tmp_path / "w.csv"), quiet)
    rows = [*csv.DictReader(io.StringIO((tmp_path / "w.csv").read_text(encoding="utf-8")))]
    assert len(rows) == 150
    assert (rows[0]["note"], rows[-1]["note"]) == ("", "'=1+1")
    assert os.listdir(tmp_path) == ["w.csv"]


async def test_a_file_that_is_there_is_never_replaced_unasked(
    server: ContractServer, api: Api, tmp_path: Path
) -> None:
    fill(server, 3)
    file = tmp_path / "mine.csv"
    file.write_text("precious", encoding="utf-8")
    with pytest.raises(FileIsThere):
        await export(api, request_for(file), quiet)
    assert file.read_text(encoding="utf-8") == "precious"
    await export(api, request_for(file, replace=True), quiet)
    assert len(file.read_text(encoding="utf-8").splitlines()) == 4
    assert file.stat().st_mode & 0o777 == 0o600


async def test_nor_one_that_comes_while_it_is_written(
    server: ContractServer, api: Api, tmp_path: Path
) -> None:
    fill(server, 3)
    file = tmp_path / "mine.csv"
    with pytest.raises(FileIsThere):
        await export(
            api, request_for(file), lambda _went: [file.write_text("precious", encoding="utf-8")][0] and None
        )
    assert file.read_text(encoding="utf-8") == "precious"
    assert os.listdir(tmp_path) == ["mine.csv"]


async def test_a_failure_half_way_leaves_nothing(server: ContractServer, api: Api, tmp_path: Path) -> None:
    fill(server, 250)

    def fail_next(_went: ExportProgress) -> None:
        server.refuse(500, {"error": {"type": "api_error", "code": "internal_error", "message": "No."}})

    with pytest.raises(LedgerError, match="No"):
        await export(api, request_for(tmp_path / "f.csv"), fail_next)
    assert os.listdir(tmp_path) == []


async def test_cancelled_it_leaves_nothing(server: ContractServer, tmp_path: Path) -> None:
    fill(server, 250)
    async with Line(server.port) as line:
        api = Api(Session(), Traffic())
        await api.open(line.url, server.key)
        held = asyncio.Event()

        def hold(_went: ExportProgress) -> None:
            line.hold.clear()
            held.set()

        running = asyncio.create_task(export(api, request_for(tmp_path / "f.csv"), hold))
        await held.wait()
        assert len(os.listdir(tmp_path)) == 1
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert os.listdir(tmp_path) == []
        await api.close()


async def test_cancelled_at_the_very_end_it_leaves_nothing(
    server: ContractServer, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(server, 3)
    reached, goes_on = threading.Event(), threading.Event()
    fsync = os.fsync

    def slow_disk(descriptor: int) -> None:
        reached.set()
        assert goes_on.wait(10)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow_disk)
    running = asyncio.create_task(export(api, request_for(tmp_path / "f.csv"), quiet))
    await until(reached.is_set)
    running.cancel()
    await asyncio.sleep(0)
    assert len(os.listdir(tmp_path)) == 1  # nothing is taken away under the thread that writes
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert os.listdir(tmp_path) == []


async def test_without_hard_links_a_name_that_cannot_be_taken_is_left_as_it_was(
    server: ContractServer, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    await export(api, request_for(tmp_path / "first.csv"), quiet)
    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(CannotWrite):
        await export(api, request_for(tmp_path / "f.csv"), quiet)
    assert os.listdir(tmp_path) == ["first.csv"]


async def test_a_target_that_is_no_regular_file_is_not_replaced(api: Api, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.csv")
    with pytest.raises(CannotWrite, match=r"f\.csv is not a regular file\."):
        await export(api, request_for(tmp_path / "f.csv", replace=True), quiet)
    assert (tmp_path / "f.csv").is_fifo()


async def test_a_folder_is_said_to_be_one(api: Api, tmp_path: Path) -> None:
    (tmp_path / "f.csv").mkdir()
    with pytest.raises(CannotWrite, match="is a folder"):
        await export(api, request_for(tmp_path / "f.csv", replace=True), quiet)


@pytest.mark.parametrize("file", ["no/such/folder/f.csv", "/proc/f.csv"])
async def test_where_nothing_can_be_written_is_a_sentence(api: Api, tmp_path: Path, file: str) -> None:
    with pytest.raises(CannotWrite, match="Cannot write"):
        await export(api, request_for(tmp_path / file), quiet)


async def test_an_empty_list_is_an_empty_file(api: Api, tmp_path: Path) -> None:
    assert (await export(api, request_for(tmp_path / "f.csv"), quiet)).rows == 0
    assert (tmp_path / "f.csv").read_text(encoding="utf-8") == ""


async def test_amounts_have_their_accounts_currency_beside_them(
    server: ContractServer, api: Api, tmp_path: Path
) -> None:
    accounts = [server.add_account(currency, currency) for currency in ("EUR", "JPY", "KWD")]
    for number in range(120):
        server.post(accounts[number % 3], 1000)
    server.accounts.remove(accounts[2])  # the server tells nothing of it any more
    await export(api, request_for(tmp_path / "c.csv"), quiet)
    rows = [*csv.DictReader(io.StringIO((tmp_path / "c.csv").read_text(encoding="utf-8")))]
    currencies = {
        account["id"]: currency for account, currency in zip(accounts, ("EUR", "JPY", ""), strict=True)
    }
    assert [row["currency"] for row in rows] == [currencies[row["account"]] for row in rows]
    assert [*rows[0]][1:3] == ["amount", "currency"]
    looked_up = [path for _method, path, _args in server.requests if path.startswith("/v1/accounts/")]
    assert len(looked_up) == 3


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_text_that_a_spreadsheet_would_run_is_quoted(start: str) -> None:
    assert cell(f"{start}cmd|' /C calc'!A0") == f"'{start}cmd|' /C calc'!A0"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (-1500, "-1500"),
        (2**53 - 1, "9007199254740991"),
        ("", ""),
        ("plain", "plain"),
        ("1-2", "1-2"),
        ({"a": "ü"}, '{"a": "ü"}'),
        (["=1"], '["=1"]'),
        ("sk_live_0123456789abcdef", "sk_live_••••"),
    ],
)
def test_other_values_are_their_text(value: object, text: str) -> None:
    assert cell(value) == text


def test_rows_have_the_columns_in_the_order_they_were_met() -> None:
    records = [{"a": 1, "b": 2}, {"c": 3, "a": 4}]
    columns = columns_of(records)
    assert columns == ["a", "b", "c"]
    assert [csv_row(record, columns) for record in records] == [["1", "2", ""], ["4", "", "3"]]
    assert csv_lines([['say "hi"', "a,b", "x\ny"]]) == '"say ""hi""","a,b","x\ny"\r\n'


def test_a_json_line_is_one_line_without_secrets() -> None:
    line = json_line({"a": "x\ny\u2028", "key": "whsec_0123456789"})
    assert len(line.splitlines()) == 1
    assert "0123" not in line


@pytest.mark.parametrize(
    ("name", "format_"),
    [("a.csv", "csv"), ("A.CSV", "csv"), ("a.jsonl", "jsonl"), ("a", None), ("csv", None)],
)
def test_the_names_end_decides_the_format(name: str, format_: str | None) -> None:
    assert format_of(name) == format_
