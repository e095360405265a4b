"""The route of statements: JSON, CSV, and the CSV that no spreadsheet runs."""

from __future__ import annotations

import csv
import io

import httpx
import pytest

from ledger_engine.ledger import statements
from tests.contract.conftest import refusal
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.manual_clock import ManualClock

CSV = {"Accept": "text/csv"}


@pytest.fixture
def post(api: httpx.AsyncClient, till: str) -> Run:
    async def make(amount: int, type: str, description: str | None = None) -> str:
        body = {"account": till, "amount": amount, "type": type, "description": description}
        answer = await api.post("/v1/transactions", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    return make


@pytest.fixture
def rows(api: httpx.AsyncClient, till: str) -> Run:
    """Return the statement as CSV, by rows."""

    async def get(**period: str) -> list[list[str]]:
        answer = await api.get(f"/v1/accounts/{till}/statement", params=period, headers=CSV)
        assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert f"statement-{till}.csv" in answer.headers["Content-Disposition"]
        return list(csv.reader(io.StringIO(answer.content.decode(), newline="")))

    return get


@pytest.mark.parametrize(
    ("period", "amounts"),
    [
        ({"from": "2026-09-21T14:13:20.001Z"}, [2, 3]),
        ({"from": "2026-09-21T16:13:20.002+02:00"}, [3]),
        ({"to": "2026-09-21"}, [1, 2, 3]),
        ({"to": "20260921"}, [1, 2, 3]),
        ({"from": "2026-09-21", "to": "9999-12-31"}, [1, 2, 3]),
    ],
)
async def test_a_moment_is_of_any_zone_and_a_date_is_all_its_day(
    api: httpx.AsyncClient,
    till: str,
    post: Run,
    clock: ManualClock,
    period: dict[str, str],
    amounts: list[int],
) -> None:
    for amount in (1, 2, 3):
        await post(amount, "credit")
        clock.advance(1)
    answer = (await api.get(f"/v1/accounts/{till}/statement", params=period)).json()
    assert [line["amount"] for line in answer["lines"]] == amounts


@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        ("from=soon", "invalid_value", "from"),
        ("to=2026-02-30", "invalid_value", "to"),
        ("from=&to=", "invalid_value", "from"),
        ("from=2027-01-01", "invalid_value", "from"),
        ("from_=2026-09-22", "unknown_field", "from_"),
    ],
)
async def test_a_period_that_is_not_understood_is_refused(
    api: httpx.AsyncClient, till: str, query: str, code: str, param: str
) -> None:
    for headers in ({}, CSV):
        answer = await api.get(f"/v1/accounts/{till}/statement?{query}", headers=headers)
        assert refusal(answer) == (400, code, param)


async def test_the_csv_has_the_same_balances_and_lines(rows: Run, post: Run, clock: ManualClock) -> None:
    await post(500, "credit")
    clock.advance(86_400_000)
    second = await post(620, "debit", 'Milk, "fresh"\nand cream')
    header, opening, line, closing = await rows(**{"from": "2026-09-22", "to": "2026-09-22"})
    assert header == ["date", "description", "amount", "running_balance", "currency", "transaction"]
    assert opening == ["2026-09-22T00:00:00.000Z", "Opening balance", "", "500", "EUR", ""]
    assert line == [
        "2026-09-22T14:13:20.000Z",
        'Milk, "fresh"\nand cream',
        "-620",
        "-120",
        "EUR",
        second,
    ]
    assert closing == ["2026-09-22T23:59:59.999Z", "Closing balance", "", "-120", "EUR", ""]


@pytest.mark.parametrize(
    ("description", "lead"),
    [
        *[(f'{start}cmd|"/c calc"!A1', "'") for start in [*"=+-@\t\r\n", *"＝＋－＠"]],
        *[(other, "") for other in ["Milk", "1 = 1", "'=1", "", "5-3", " =1", "ü✓", "a\tb"]],
    ],
)
async def test_a_description_that_would_be_a_formula_is_led_by_a_quote_and_no_other(
    rows: Run, post: Run, description: str, lead: str
) -> None:
    await post(1, "credit", description)
    assert (await rows())[2][1] == lead + description


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/csv", "text/csv"),
        ("text/csv;charset=utf-8", "text/csv"),
        ("text/csv, application/json;q=0.5", "text/csv"),
        ("text/*", "text/csv"),
        ("application/json", "application/json"),
        ("application/json, text/csv;q=0.5", "application/json"),
        ("*/*", "application/json"),
        ("text/html", "application/json"),
        ("", "application/json"),
        ("nonsense;;=", "application/json"),
    ],
)
async def test_accept_chooses_between_json_and_csv(
    api: httpx.AsyncClient, till: str, accept: str, kind: str
) -> None:
    answer = await api.get(f"/v1/accounts/{till}/statement", headers={"Accept": accept})
    assert answer.headers["Content-Type"].partition(";")[0] == kind


async def test_a_long_statement_is_whole_in_both_forms(api: httpx.AsyncClient, till: str, rows: Run) -> None:
    count = 2 * statements.LINES_AT_ONCE + 1
    items = [{"account": till, "amount": 1, "type": "credit"}] * statements.LINES_AT_ONCE
    for batch in (items, items, items[:1]):
        await api.post("/v1/transactions/batch", json={"transactions": batch})
    statement = (await api.get(f"/v1/accounts/{till}/statement")).json()
    assert [line["running_balance"] for line in statement["lines"]] == list(range(1, count + 1))
    assert [row[3] for row in (await rows())[2:-1]] == [str(number) for number in range(1, count + 1)]
