"""A file of transactions is read; each of its faults is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_engine.cli import posted_file
from ledger_engine.cli.posted_file import BadFile, PostedContent, in_smallest_unit, read_file, read_rows
from ledger_engine.core.money import MAX_AMOUNT

TEXT = b"account,type,amount\nTill,credit,1\n"
HEAD = "account,type,amount,description\n"


def sentences(content: PostedContent) -> list[str]:
    return [str(fault) for fault in content.faults]


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sales.CSV"
    file.write_bytes(b"\xef\xbb\xbf" + TEXT)  # with the mark that spreadsheets begin a file with
    assert [row.account for row in read_file(file).rows] == ["Till"]
    (tmp_path / "binary.csv").write_bytes(TEXT + b"\xff")
    for name, sentence in (("binary.csv", "not UTF-8"), ("none.jsonl", "cannot be read: No such file")):
        with pytest.raises(BadFile, match=sentence):
            read_file(tmp_path / name)
    monkeypatch.setattr(posted_file, "_FILE_BYTES_MAX", len(TEXT))
    with pytest.raises(BadFile, match="larger than"):
        read_file(file)


def test_a_csv_file_and_a_jsonl_file_say_the_same() -> None:
    csv = read_rows("a.csv", 'account,type,decimal_amount,description\r\nTill,credit,12.50,"a, b"\r\n')
    json = read_rows(
        "a.jsonl", '{"account":"Till","type":"credit","decimal_amount":"12.50","description":"a, b"}\n\n'
    )
    assert [(row.account, row.type, row.amount, row.description) for row in csv.rows] == [
        ("Till", "credit", "12.50", "a, b")
    ]
    assert [row.amount for row in json.rows] == ["12.50"]


def test_an_export_is_read_back_with_its_amounts_in_the_smallest_unit() -> None:
    head = "id,object,account,amount,currency,type,description,balance_after,transfer,reverses,destination"
    row = read_rows("e.csv", f"{head}\ntxn_1,transaction,acc_1,1250,EUR,debit,'=1+1,,,,\n").rows[0]
    assert (row.account, row.amount, row.currency, row.description) == ("acc_1", 1250, "EUR", "=1+1")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The first line must name the columns"),
        (HEAD, "The file has no transactions."),
        ("account,type,amount,colour\n", "The first line: “colour” is not one of"),
        ("account,type,amount,type\n", "The first line: “type” is given twice."),
    ],
)
def test_a_file_without_rows_to_check_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(BadFile, match=sentence):
        read_rows("a.csv", text)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.csv", HEAD + "Till,credit,1,x,y\n", "Line 2: The line has another number of cells"),
        ("a.csv", HEAD + "Till,credit,0,\n", "Line 2: The amount must be a whole number"),
        ("a.csv", HEAD + f"Till,credit,{'9' * 5000},\n", "Line 2: The amount is too large."),
        ("a.csv", HEAD + f"Till,credit,1,{'x' * 501}\n", "Line 2: The description has more than 500"),
        ("a.csv", HEAD + 'Till,credit,1,"x\n', "It is not CSV: unexpected end of data."),
        ("a.csv", "account,type,amount,decimal_amount\nTill,credit,1,1\n", "Give either amount or decimal"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":0}', "at least 1"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":true}', "at least 1"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":1,"amount":2}', "“amount” is given twice"),
        ("a.jsonl", '{"account":"\\ud800","type":"credit","amount":1}', "an invalid character"),
        ("a.jsonl", '{"account":"Till\\u0000","type":"credit","amount":1}', "an invalid character"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":1,"transfer":"t"}', "side of a transfer"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":1,"description":5}', "must be a text"),
        ("a.jsonl", "[1]", "Line 1: It is not a JSON object."),
        ("a.jsonl", "{", "Line 1: It is not JSON."),
    ],
)
def test_a_row_that_cannot_be_posted_is_named_with_its_line(name: str, text: str, sentence: str) -> None:
    (fault,) = sentences(read_rows(name, text))
    assert sentence in fault


def test_all_faults_are_found_at_once_of_lines_that_are_not_json_too() -> None:
    lines = ["{", '{"account":"Till","type":"give","amount":1}', "[]"] * 30
    content = read_rows("a.jsonl", "\n".join(lines))
    assert [fault.line for fault in content.faults] == [*range(1, 91)]
    content = read_rows("a.csv", HEAD + ",credit,1,\nTill,credit,7,\nTill,give,1,\nTill\n")
    assert [fault.partition(":")[0] for fault in sentences(content)] == ["Line 2", "Line 4", "Line 5"]
    assert [row.line for row in content.rows] == [3], "its account is looked for too"


@pytest.mark.parametrize(("name", "amount"), [("a.csv", "12.50"), ("a.csv", "1e3"), ("a.jsonl", "12.5")])
def test_a_decimal_amount_in_the_column_of_the_smallest_unit_is_refused_with_the_right_column(
    name: str, amount: str
) -> None:
    text = HEAD + f"Till,credit,{amount},\n"
    if name == "a.jsonl":
        text = f'{{"account":"Till","type":"credit","amount":{amount}}}'
    (fault,) = sentences(read_rows(name, text))
    assert f"“{amount}” is not a whole number of the smallest unit." in fault
    assert fault.endswith("belongs in the column decimal_amount.")


def test_a_decimal_amount_becomes_the_smallest_unit_exactly_or_is_refused() -> None:
    for text, decimals, amount in (
        ("12.50", 2, 1250),
        ("12", 2, 1200),
        (".5", 2, 50),
        ("1.25", 3, 1250),
        ("1250", 0, 1250),
        ("90071992547409.91", 2, MAX_AMOUNT),
    ):
        assert in_smallest_unit(text, "XXX", decimals) == amount
    for text, sentence in (
        ("1.005", "EUR has 2 decimals"),
        ("1,5", "an amount like 12.50"),
        ("-1", "an amount like 12.50"),
        ("1_0", "an amount like 12.50"),
        ("0.00", "more than zero"),
        ("90071992547409.92", "too large"),
    ):
        with pytest.raises(ValueError, match=sentence):
            in_smallest_unit(text, "EUR", 2)


def test_a_file_of_too_many_transactions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # 100,000 rows would take seconds to read
    monkeypatch.setattr(posted_file, "ROWS_MAX", 3)
    row = '{"account":"Till","type":"credit","amount":1}\n'
    assert len(read_rows("a.jsonl", row * 3).rows) == 3
    with pytest.raises(BadFile, match="more than 3 transactions"):
        read_rows("a.jsonl", row * 4)
