"""docs/interface.md#account; docs/decisions.md#conventions, #lists, #transactions."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.contract.clockwork import Clockwork
from tests.contract.conftest import refusal, without_missing
from tests.contract.rules import holds

NEW = {"name": "Till", "currency": "EUR"}


def create(api: httpx.Client, **fields: Any) -> Any:
    answer = api.post("/v1/accounts", json={**NEW, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


@holds("get-accounts-id", "errors-404")
@pytest.mark.parametrize("rest", ["", "/balance", "/statement"])
def test_an_unknown_account_is_404(api: httpx.Client, rest: str) -> None:
    for id in ("acc_00000000000000000000000000", "x", "%00", "%F0%9F%92%A5", "a" * 500):
        answer = api.get(f"/v1/accounts/{id}{rest}")
        error = answer.json()["error"]
        assert (answer.status_code, error["type"], error["code"]) == (404, "not_found", "not_found")


@holds(
    "post-accounts-name",
    "accounts-name",
    "post-accounts-currency",
    "accounts-currency",
    "account-iso-4217",
    "post-accounts-metadata",
    "account-metadata",
    "accounts-metadata",
    "errors-missing-field",
    "errors-400",
    "error-param",
    "conventions-strict",
)
@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"name": ...}, "missing_field", "name"),
        ({"currency": ...}, "missing_field", "currency"),
        *[({"name": name}, "invalid_value", "name") for name in ("", "x" * 256, None, 7, ["Till"])],
        *[
            ({"currency": currency}, "invalid_value", "currency")
            for currency in ("", "EU", "EURO", "XXX", "DEM", "ZZZ", "€", 978, None, "ＥＵＲ")
        ],
        ({"metadata": {str(number): "v" for number in range(21)}}, "invalid_value", "metadata"),
        ({"metadata": {"": "v"}}, "invalid_value", "metadata"),
        ({"metadata": {"k" * 65: "v"}}, "invalid_value", "metadata"),
        ({"metadata": []}, "invalid_value", "metadata"),
        *[
            ({"metadata": {"k": value}}, "invalid_value", "metadata.k")
            for value in ("v" * 1025, 1, None, {"nested": "v"})
        ],
        *[
            ({field: 1}, "unknown_field", field)
            for field in ("balance", "livemode", "project", "id", "object", "created", "status", "Name")
        ],
    ],
)
def test_another_account_is_refused(api: httpx.Client, fields: dict[str, Any], code: str, param: str) -> None:
    answer = api.post("/v1/accounts", json=without_missing({**NEW, **fields}))
    assert (refusal(answer), answer.json()["error"]["type"]) == ((400, code, param), "invalid_request")
    assert api.get("/v1/accounts").json()["data"] == []


@holds("accounts-name")
def test_a_name_may_have_255_characters_of_any_script(api: httpx.Client) -> None:
    assert create(api, name="Käsekuchen 🧀" + "ß" * 243)["name"].startswith("Käsekuchen 🧀")


@holds("accounts-currencies")
def test_the_listed_currencies_are_those_that_an_account_may_have(api: httpx.Client) -> None:
    first = api.get("/v1/currencies", params={"limit": 100}).json()
    assert first["has_more"] is True
    assert first["next_cursor"] == first["data"][-1]["code"]
    rest = api.get("/v1/currencies", params={"limit": 100, "cursor": first["next_cursor"]}).json()
    assert (rest["has_more"], rest["next_cursor"]) == (False, None)
    listed = [*first["data"], *rest["data"]]
    codes = [each["code"] for each in listed]
    assert codes == sorted(set(codes))
    assert not {"XXX", "XTS", "XAU", "DEM"} & set(codes)
    assert {"object": "currency", "code": "EUR", "name": "Euro", "decimals": 2} in listed
    decimals = {each["code"]: each["decimals"] for each in listed}
    assert (decimals["JPY"], decimals["KWD"], decimals["CLF"]) == (0, 3, 4)
    for code in (codes[0], codes[-1]):
        assert create(api, currency=code)["currency"] == code


@holds("accounts-currencies")
@pytest.mark.parametrize("cursor", ["", "eur", "XXX", "acc_00000000000000000000000000"])
def test_a_cursor_that_is_no_listed_currency_is_refused(api: httpx.Client, cursor: str) -> None:
    answer = api.get("/v1/currencies", params={"cursor": cursor})
    assert refusal(answer) == (400, "invalid_cursor", "cursor")


@holds("accounts-currency")
@pytest.mark.parametrize("currency", ["eur", "Eur", "EUR"])
def test_a_currency_is_taken_in_any_case_and_shown_in_upper_case(api: httpx.Client, currency: str) -> None:
    assert create(api, currency=currency)["currency"] == "EUR"


@holds("post-accounts-metadata", "account-metadata", "accounts-metadata")
def test_metadata_holds_20_pairs_of_text_and_null_is_none(api: httpx.Client) -> None:
    assert create(api, metadata=None)["metadata"] == {}
    metadata = {f"{number:064}": "v" * 1024 for number in range(20)}
    account = create(api, metadata=metadata)
    assert account["metadata"] == metadata
    assert api.get(f"/v1/accounts/{account['id']}").json()["metadata"] == metadata


@holds("accounts-balance-at")
def test_the_balance_at_a_time_counts_what_was_posted_until_then(api: httpx.Client) -> None:
    account = create(api)
    path = f"/v1/accounts/{account['id']}/balance"
    posting = {"account": account["id"], "amount": 250, "type": "credit"}
    posted = api.post("/v1/transactions", json=posting).json()
    assert api.get(path, params={"at": "2020-01-01"}).json() == {
        "balance": 0,
        "currency": "EUR",
        "at": "2020-01-01T00:00:00.000Z",
    }
    assert api.get(path, params={"at": posted["created"]}).json()["balance"] == 250
    assert api.get(path).json()["balance"] == 250


@holds("accounts-balance-at", "statements-contents")
def test_a_balance_is_that_of_a_moment_and_a_statement_has_the_whole_day(clockwork: Clockwork) -> None:
    api = clockwork.client(clockwork.key(clockwork.project()))
    path = f"/v1/accounts/{create(api)['id']}"
    clockwork.advance(1)
    posting = {"account": path.rpartition("/")[2], "amount": 5, "type": "credit"}
    assert api.post("/v1/transactions", json=posting).status_code == 201
    clockwork.advance(86_400)
    for at, shown, balance in [
        (None, "2026-11-21T12:00:01.000Z", 5),
        ("2026-11-20T12:00:00.999Z", "2026-11-20T12:00:00.999Z", 0),
        ("2026-11-20T12:00:01Z", "2026-11-20T12:00:01.000Z", 5),
        ("2026-11-20T14:00:01+02:00", "2026-11-20T12:00:01.000Z", 5),
        ("2026-11-20", "2026-11-20T00:00:00.000Z", 0),
        ("2026-11-21", "2026-11-21T00:00:00.000Z", 5),
    ]:
        answer = api.get(f"{path}/balance", params={} if at is None else {"at": at})
        assert answer.json() == {"balance": balance, "currency": "EUR", "at": shown}
    statement = api.get(f"{path}/statement", params={"to": "2026-11-20"}).json()
    assert statement["closing_balance"] == 5


@holds("accounts-balance-at")
@pytest.mark.parametrize(
    "at",
    [
        "",
        "now",
        "2026-13-01",
        "2026-02-30T00:00:00Z",
        "1790000000",
        "2026-09-21T25:00Z",
        "2026092",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
def test_a_balance_at_another_time_is_refused(api: httpx.Client, at: str) -> None:
    answer = api.get(f"/v1/accounts/{create(api)['id']}/balance", params={"at": at})
    assert refusal(answer) == (400, "invalid_value", "at")


@holds("statements-contents", "transaction-description")
def test_a_statement_leads_from_the_opening_to_the_closing_balance(api: httpx.Client) -> None:
    account = create(api)["id"]
    lines = []
    for amount, kind, description, signed, balance in [
        (1000, "credit", "=1+1", 1000, 1000),
        (300, "debit", None, -300, 700),
    ]:
        body = {"account": account, "amount": amount, "type": kind, "description": description}
        posted = api.post("/v1/transactions", json=body).json()
        line = {"transaction": posted["id"], "date": posted["created"], "description": description}
        lines.append({**line, "amount": signed, "running_balance": balance})
    statement = api.get(f"/v1/accounts/{account}/statement?from=2026-01-01&to=9999-12-31").json()
    assert statement == {
        "account": account,
        "currency": "EUR",
        "period_start": "2026-01-01T00:00:00.000Z",
        "period_end": "9999-12-31T23:59:59.999Z",
        "opening_balance": 0,
        "closing_balance": 700,
        "last_transaction": lines[-1]["transaction"],
        "lines": lines,
    }
    sheet = api.get(f"/v1/accounts/{account}/statement", headers={"Accept": "text/csv"})
    assert sheet.headers["Content-Type"].startswith("text/csv")
    assert "'=1+1,1000,1000" in sheet.text


@holds("statements-contents")
def test_a_statement_of_an_earlier_time_is_empty(api: httpx.Client) -> None:
    account = create(api)["id"]
    period = {"from": "2020-01-01", "to": "2020-01-31"}
    statement = api.get(f"/v1/accounts/{account}/statement", params=period).json()
    assert (statement["opening_balance"], statement["closing_balance"], statement["lines"]) == (0, 0, [])
