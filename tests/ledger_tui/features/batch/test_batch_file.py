"""Transactions from files."""

import pytest

from ledger_tui.features.batch import batch_file
from ledger_tui.features.batch.batch_file import BadFile, read_rows

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
        ("a.csv", HEAD + "Till,credit,12.50,\n", "Line 2: “12.50” is not in the smallest unit"),
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
        ("a.jsonl", '{"account":"\\ud800","type":"credit","amount":1}', "half of a character"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":1,"transfer":"t"}', "side of a transfer"),
        ("a.jsonl", '{"account":"Till","type":"credit","amount":1,"description":5}', "must be a text"),
        ("a.jsonl", "[1]", "Line 1: it is no JSON object."),
        ("a.jsonl", "{", "Line 1: it is not JSON."),
    ],
)
def test_a_file_that_cannot_be_posted_is_refused_with_its_lines(name: str, text: str, sentence: str) -> None:
    with pytest.raises(BadFile) as refused:
        read_rows(name, text)
    assert sentence in str(refused.value)


def test_of_many_problems_the_first_five_are_said_and_that_there_are_more() -> None:
    row = '{"account":"Till","type":"give","amount":1}\n'
    with pytest.raises(BadFile) as refused:
        read_rows("a.jsonl", row * 5)
    assert [line[:7] for line in str(refused.value).split("\n")] == [f"Line {n}:" for n in range(1, 6)]
    with pytest.raises(BadFile) as refused:
        read_rows("a.jsonl", row * 100)
    said = str(refused.value).split("\n")
    assert [line[:7] for line in said[:5]] == [f"Line {n}:" for n in range(1, 6)]
    assert said[5:] == ["There are more."]


def test_a_file_of_too_many_transactions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_file, "ROWS_MOST", 3)  # 100,000 rows would take seconds to read
    row = '{"account":"Till","type":"credit","amount":1}\n'
    assert len(read_rows("a.jsonl", row * 3)) == 3
    with pytest.raises(BadFile, match="more than 3 transactions"):
        read_rows("a.jsonl", row * 4)
