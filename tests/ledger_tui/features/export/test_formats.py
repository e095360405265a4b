import pytest

from ledger_tui.features.export.writing import cell, columns_of, csv_lines, csv_row, format_of, json_line


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
