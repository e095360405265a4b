"""A file of transactions becomes what is sent: its accounts are found, and what cannot be sent is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.features import batch
from ledger_tui.features.batch import (
    ROWS_IN_PART,
    BadFile,
    FileRow,
    Posting,
    parts_of,
    prepare,
    read_file,
    read_rows,
    totals,
)
from ledger_tui.formats.money import LARGEST_AMOUNT
from tests.ledger_tui.client.test_api import client
from tests.ledger_tui.contract_server import ContractServer

TEXT = b"account,type,amount\nTill,credit,1\n"


def row(line: int, account: str, amount: int | str = 1, **more: str) -> FileRow:
    rest = {"description": None, "destination": None, "currency": None} | more
    return FileRow(line, account, "credit", amount, **rest)


async def prepared(server: ContractServer, *rows: FileRow) -> list[Posting]:
    async with client(server.url) as (api, _session, _traffic):
        return await prepare(api, AccountNames(), rows)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sales.CSV"
    file.write_bytes(b"\xef\xbb\xbf" + TEXT)  # with the mark that spreadsheets begin a file with
    assert [each.account for each in read_file(file)] == ["Till"]
    (tmp_path / "binary.csv").write_bytes(TEXT + b"\xff")
    for name, sentence in (
        ("sales.txt", "must end in .csv or .jsonl"),
        ("binary.csv", "not UTF-8"),
        ("none.jsonl", "cannot be read: No such file"),
    ):
        with pytest.raises(BadFile, match=sentence):
            read_file(tmp_path / name)
    monkeypatch.setattr(batch, "_FILE_BYTES", len(TEXT))
    with pytest.raises(BadFile, match="larger than"):
        read_file(file)


async def test_accounts_are_found_by_id_or_by_their_exact_name_and_amounts_in_their_currency(
    server: ContractServer,
) -> None:
    till, safe = server.add_account("Till"), server.add_account("Safe", "KWD")
    postings = await prepared(
        server,
        row(2, till["id"], 5, destination="safe", description="to the safe", currency="eur"),
        row(3, "Safe", "1.25"),
    )
    assert postings == [
        Posting(
            2,
            {
                "account": till["id"],
                "type": "credit",
                "amount": 5,
                "description": "to the safe",
                "destination": safe["id"],
            },
            "EUR",
        ),
        Posting(3, {"account": safe["id"], "type": "credit", "amount": 1250}, "KWD"),
    ]
    assert totals(postings) == {("credit", "EUR"): 5, ("credit", "KWD"): 1250}


async def test_what_cannot_be_sent_is_named_with_its_line(server: ContractServer) -> None:
    for name in ("Till", "Safe", "Safe"):
        server.add_account(name)
    nobody = "acc_00000000000000000000000099"
    rows = (
        row(1, "Till"),
        row(2, nobody),
        row(3, "Safe"),
        row(4, "Till", currency="USD"),
        row(5, "Till", LARGEST_AMOUNT + 1),
        row(6, "Till", destination="Nobody"),
        row(7, "Till", "1.005"),
    )
    with pytest.raises(BadFile) as refused:
        await prepared(server, *rows[:5])
    assert str(refused.value).split("\n") == [
        f"Line 2: There is no account “{nobody}”.",
        "Line 3: 2 accounts are called “Safe”; give the id.",
        "Line 4: The currency is USD, but that of Till is EUR.",
        "Line 5: The amount is too large.",
    ]
    with pytest.raises(BadFile) as refused:
        await prepared(server, *rows)
    assert str(refused.value).split("\n")[4:] == [
        "Line 6: There is no account “Nobody”.",
        "Line 7: EUR has 2 decimals.",
    ]


def test_a_part_has_at_most_as_many_rows_and_bytes_as_a_request_may() -> None:
    small = Posting(1, {"account": "acc_1", "type": "credit", "amount": 1}, "EUR")
    parts = parts_of([small] * (ROWS_IN_PART + 1))
    assert [len(part.postings) for part in parts] == [ROWS_IN_PART, 1]
    assert len({part.idempotency_key for part in parts}) == 2
    large = Posting(1, {**small.body, "description": "ä" * 200_000}, "EUR")  # 400,000 bytes
    assert [len(part.postings) for part in parts_of([large] * 5)] == [2, 2, 1]


HEAD = "account,type,amount,description\n"


def test_a_csv_file_and_a_jsonl_file_say_the_same() -> None:
    csv = read_rows("a.csv", 'account,type,decimal_amount,description\r\nTill,credit,12.50,"a, b"\r\n')
    json = read_rows(
        "a.jsonl", '{"account":"Till","type":"credit","decimal_amount":"12.50","description":"a, b"}\n\n'
    )
    assert [(row.account, row.type, row.amount, row.description) for row in csv] == [
        ("Till", "credit", "12.50", "a, b")
    ]
    assert [row.amount for row in json] == ["12.50"]


def test_an_export_is_read_back_with_its_amounts_in_the_smallest_unit() -> None:
    head = "id,object,account,amount,currency,type,description,balance_after,transfer,reverses,destination"
    row = read_rows("e.csv", f"{head}\ntxn_1,transaction,acc_1,1250,EUR,debit,'=1+1,,,,\n")[0]
    assert (row.account, row.amount, row.currency, row.description) == ("acc_1", 1250, "EUR", "=1+1")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.csv", "", "The first line must name the columns"),
        ("a.csv", HEAD, "The file has no transactions."),
        (
            "a.csv",
            HEAD + "Till,credit,12.50,\n",
            "Line 2: “12.50” is not a whole number of the smallest unit",
        ),
        ("a.csv", HEAD + "Till,credit,1,x,y\n", "Line 2: it has another number of cells"),
        ("a.csv", "account,type,amount,colour\n", "“colour” is not one of"),
        (
            "a.csv",
            HEAD + ",credit,1,\nTill,give,1,\n",
            "Line 2: An account is required.\nLine 3: The type must",
        ),
        ("a.csv", "account,type,amount,decimal_amount\nTill,credit,1,1\n", "Give either amount or decimal"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":0}', "at least 1"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":true}', "at least 1"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":1,"amount":2}', "given twice"),
        ("a.jsonl", '{"account":"\\ud800","type":"credit","amount":1}', "an invalid Unicode character"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":1,"transfer":"t"}', "side of a transfer"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":1,"description":5}', "must be a text"),
        ("a.jsonl", "[1]", "Line 1: it is not a JSON object."),
        ("a.jsonl", "{", "Line 1: it is not JSON."),
    ],
)
def test_a_file_that_cannot_be_posted_is_refused_with_its_lines(name: str, text: str, sentence: str) -> None:
    with pytest.raises(BadFile) as refused:
        read_rows(name, text)
    assert sentence in str(refused.value)


def test_all_problems_are_said_at_once_and_decimal_amounts_can_be_read_as_such() -> None:
    row = '{"account":"Till","type":"give","amount":1}\n'
    with pytest.raises(BadFile) as refused:
        read_rows("a.jsonl", row * 100)
    assert [line.partition(":")[0] for line in str(refused.value).split("\n")] == [
        f"Line {n}" for n in range(1, 101)
    ]
    assert not refused.value.decimals
    text = "account,type,amount\nTill,credit,5.00\nTill,credit,7\n"
    with pytest.raises(BadFile) as refused:
        read_rows("a.csv", text)
    assert refused.value.decimals
    assert [each.amount for each in refused.value.rows] == [7]  # whose other faults are looked for too
    assert [each.amount for each in read_rows("a.csv", text, decimals=True)] == ["5.00", "7"]


def test_a_file_of_too_many_transactions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # 100,000 rows would take seconds to read
    monkeypatch.setattr("ledger_tui.features.batch.ROWS_MOST", 3)
    row = '{"account":"Till","type":"credit","amount":1}\n'
    assert len(read_rows("a.jsonl", row * 3)) == 3
    with pytest.raises(BadFile, match="more than 3 transactions"):
        read_rows("a.jsonl", row * 4)
