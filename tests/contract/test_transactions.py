"""docs/interface.md#transaction; docs/decisions.md#transactions."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx
import pytest

from tests.contract.conftest import ids_of, open_account, refusal, without_missing
from tests.contract.rules import holds

MOST = 2**53 - 1
NO_JSON = ("1e400", "1" * 5000, "NaN", "Infinity")  # no number that a float or an int of usual size holds


def post(api: httpx.Client, account: str, amount: int, type: str = "credit", **fields: Any) -> Any:
    body = {"account": account, "amount": amount, "type": type, **fields}
    answer = api.post("/v1/transactions", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def refused(
    api: httpx.Client, body: dict[str, Any], path: str = "/v1/transactions"
) -> tuple[int, str, str | None]:
    return refusal(api.post(path, json=without_missing(body)))


def balance(api: httpx.Client, account: str) -> int:
    return int(api.get(f"/v1/accounts/{account}").json()["balance"])


@holds(
    "post-transactions",
    "transactions-fields",
    "transaction-account",
    "transaction-amount",
    "transaction-type",
)
def test_a_posted_transaction_has_these_fields(api: httpx.Client, account: str) -> None:
    posted = post(api, account, 1250, description="Two bags")
    created = posted.pop("created")
    assert created.endswith("Z")
    assert posted.pop("id").startswith("txn_")
    assert posted == {
        "object": "transaction",
        "account": account,
        "amount": 1250,
        "type": "credit",
        "description": "Two bags",
        "balance_after": 1250,
        "livemode": False,
        "destination": None,
        "transfer": None,
        "reverses": None,
    }


@holds("projects-overdraft", "transactions-direction")
def test_a_debit_may_go_below_zero_unless_the_project_refuses_it(
    api: httpx.Client, account: str, make_project: Any
) -> None:
    assert post(api, account, 1, "debit")["balance_after"] == -1
    careful = make_project(overdraft="refuse").api
    till = open_account(careful)
    post(careful, till, 5)
    body = {"account": till, "amount": 6, "type": "debit"}
    assert refused(careful, body) == (400, "insufficient_funds", "amount")
    assert balance(careful, till) == 5
    assert post(careful, till, 5, "debit")["balance_after"] == 0


@holds("transaction-amount", "transactions-amount")
@pytest.mark.parametrize(
    "amount",
    [
        "true",
        "1.5",
        "1.0",
        "1e3",
        "{}",
        *NO_JSON,
        "9223372036854775808",
        str(MOST + 1),
        "-1",
        "0",
        '"1"',
        "null",
        "[1]",
    ],
)
def test_an_amount_is_a_positive_integer_up_to_2_to_the_53(
    api: httpx.Client, account: str, amount: str
) -> None:
    body = f'{{"account": "{account}", "type": "credit", "amount": {amount}}}'
    answer = api.post("/v1/transactions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == ("invalid_json" if amount in NO_JSON else "invalid_value")
    assert balance(api, account) == 0


@holds("transactions-amount", "transactions-range", "error-codes")
def test_a_balance_stays_within_2_to_the_53(api: httpx.Client, account: str) -> None:
    assert post(api, account, MOST)["balance_after"] == MOST
    body = {"account": account, "amount": 1, "type": "credit"}
    assert refused(api, body) == (400, "balance_out_of_range", "amount")
    assert balance(api, account) == MOST


@holds("transaction-description", "transactions-amount")
def test_a_description_is_optional_and_has_up_to_500_characters(api: httpx.Client, account: str) -> None:
    assert post(api, account, 1)["description"] is None
    assert post(api, account, 1, description=None)["description"] is None
    assert post(api, account, 1, description="d" * 500)["description"] == "d" * 500


@holds(
    "transaction-account",
    "transaction-amount",
    "transaction-type",
    "transactions-destination",
    "transactions-unknown-account",
    "transactions-filters",
    "errors-missing-field",
    "errors-404",
    "conventions-strict",
)
@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        *[({field: ...}, 400, "missing_field") for field in ("account", "amount", "type")],
        *[({"type": type}, 400, "invalid_value") for type in ("Credit", "", "transfer", None, 1)],
        *[({field: 5}, 400, "invalid_value") for field in ("account", "destination", "description")],
        ({"description": "d" * 501}, 400, "invalid_value"),
        *[
            ({"account": id}, 404, "not_found")
            for id in ("acc_01kafzq8yrew4r2h6sfvcm0x5t", "acc_", "", "x' OR 1=1 --")
        ],
        *[
            ({field: "txn_x"}, 400, "unknown_field")
            for field in ("balance_after", "transfer", "reverses", "livemode", "created")
        ],
    ],
)
def test_another_transaction_is_refused_and_the_field_named(
    api: httpx.Client, account: str, fields: dict[str, Any], status: int, code: str
) -> None:
    assert refused(api, {"account": account, "amount": 1, "type": "credit", **fields}) == (
        status,
        code,
        *fields,
    )
    assert api.get("/v1/transactions").json()["data"] == []


@holds("get-transactions", "transactions-settlement")
def test_transactions_are_listed_newest_first_and_without_their_other_side(
    api: httpx.Client, account: str
) -> None:
    posted = [post(api, account, amount) for amount in (1, 2, 3)]
    listed = api.get("/v1/transactions").json()
    assert listed == {"data": posted[::-1], "has_more": False, "next_cursor": None}
    assert ids_of(api, "/v1/accounts") == [account]


@holds("get-transactions", "transactions-filters")
def test_transactions_are_filtered_by_account_and_type(api: httpx.Client, account: str) -> None:
    other = open_account(api)
    first = post(api, account, 5, "credit")
    second = post(api, account, 3, "debit")
    post(api, other, 9, "debit")

    found = partial(ids_of, api, "/v1/transactions")
    assert found(account=account) == [second["id"], first["id"]]
    assert found(account=account, type="credit") == [first["id"]]
    assert len(found(type="debit")) == 2
    assert found(account="acc_01kafzq8yrew4r2h6sfvcm0x5t") == []
    assert api.get("/v1/transactions", params={"type": "both"}).json()["error"]["param"] == "type"


@holds("get-transactions", "transactions-created-after")
def test_created_after_is_strict_and_takes_dates_and_offsets(api: httpx.Client, account: str) -> None:
    first = post(api, account, 1)
    while (second := post(api, account, 2))["created"] == first["created"]:
        pass

    def found(after: str) -> list[str]:
        return ids_of(api, "/v1/transactions", created_after=after)

    assert second["id"] in found(first["created"])
    assert first["id"] not in found(first["created"])
    assert found(second["created"]) == []
    for earlier in ("1969-01-01", "2020-01-01", "2020-01-01T05:00:00+05:00"):
        assert first["id"] in found(earlier)
    assert found("2999-01-01T00:00") == []
    assert first["id"] in found(first["created"][:10])
    assert first["id"] in found("20200101T050000+05")


@holds("transactions-created-after")
@pytest.mark.parametrize(
    "time",
    [
        "",
        "yesterday",
        "2026-13-01",
        "2026-02-30",
        "2026112",
        "1795176000",
        "2026-W01",
        "2026-09-21T14:13:20 02:00",
    ],
)
def test_another_created_after_is_refused(api: httpx.Client, time: str) -> None:
    answer = api.get("/v1/transactions", params={"created_after": time})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "created_after"


@holds("transactions-get")
def test_a_transaction_can_be_read(api: httpx.Client, account: str) -> None:
    posted = post(api, account, 7)
    assert api.get(f"/v1/transactions/{posted['id']}").json() == posted
    assert api.get("/v1/transactions/txn_none").status_code == 404


@holds("transactions-destination")
@pytest.mark.parametrize(
    ("type", "other_type", "change"), [("debit", "credit", -400), ("credit", "debit", 400)]
)
def test_a_transfer_is_two_transactions_that_share_it(
    api: httpx.Client, account: str, type: str, other_type: str, change: int
) -> None:
    savings = open_account(api)
    source = post(api, account, 400, type, destination=savings)
    assert (source["account"], source["destination"], source["type"]) == (account, savings, type)
    assert source["transfer"] is not None
    [other, same] = api.get("/v1/transactions").json()["data"]
    assert same == source
    assert (other["account"], other["destination"], other["type"]) == (savings, account, other_type)
    assert other["transfer"] == source["transfer"]
    assert (balance(api, account), balance(api, savings)) == (change, -change)


@holds("transactions-related")
def test_related_transactions_are_listed(api: httpx.Client, account: str) -> None:
    def related(id: str) -> list[tuple[str, str]]:
        data = api.get(f"/v1/transactions/{id}/related").json()["data"]
        return [(each["type"], each["id"]) for each in data]

    alone = post(api, account, 5, "debit")["id"]
    moved = post(api, account, 5, "debit", destination=open_account(api))["id"]
    assert related(alone) == []
    ((_type, other),) = related(moved)
    undone = api.post(f"/v1/transactions/{moved}/reverse").json()["id"]
    assert related(moved) == [("credit", undone), ("credit", other)]
    assert ("debit", moved) in related(undone)
    assert api.get("/v1/transactions/txn_none/related").status_code == 404


@holds("transactions-destination", "error-codes")
def test_a_destination_has_the_same_currency_and_is_known(api: httpx.Client, account: str) -> None:
    yen = open_account(api, "JPY")
    body = {"account": account, "amount": 1, "type": "debit", "destination": yen}
    assert refused(api, body) == (400, "currency_mismatch", "destination")
    assert refused(api, {**body, "destination": account}) == (400, "invalid_value", "destination")
    for unknown in ("acc_none", ""):
        assert refused(api, {**body, "destination": unknown}) == (404, "not_found", "destination")
    assert (balance(api, account), balance(api, yen)) == (0, 0)


@holds("transactions-reverse")
def test_a_transaction_is_reversed_once(api: httpx.Client, account: str) -> None:
    posted = post(api, account, 90)
    undone = api.post(f"/v1/transactions/{posted['id']}/reverse")
    assert undone.status_code == 201
    assert undone.json()["reverses"] == posted["id"]
    assert (undone.json()["type"], undone.json()["amount"]) == ("debit", 90)
    assert balance(api, account) == 0
    again = api.post(f"/v1/transactions/{posted['id']}/reverse")
    assert (again.status_code, again.json()["error"]["type"]) == (409, "conflict")
    assert balance(api, account) == 0
    assert api.post("/v1/transactions/txn_none/reverse").status_code == 404


@holds("transactions-batch")
def test_a_batch_is_posted_in_its_order(api: httpx.Client, account: str) -> None:
    batch = [{"account": account, "amount": amount, "type": "credit"} for amount in (1, 2, 3)]
    answer = api.post("/v1/transactions/batch", json={"transactions": batch})
    assert answer.status_code == 201
    assert set(answer.json()) == {"data"}
    assert [item["balance_after"] for item in answer.json()["data"]] == [1, 3, 6]
    assert api.get("/v1/transactions").json()["data"] == answer.json()["data"][::-1]


@holds("transactions-batch", "error-param")
def test_a_batch_is_posted_whole_or_not_at_all(api: httpx.Client, account: str) -> None:
    good = {"account": account, "amount": 1, "type": "credit"}
    path = "/v1/transactions/batch"
    for bad, status, code, param in [
        ({**good, "amount": 0}, 400, "invalid_value", "transactions.2.amount"),
        ({**good, "amount": 1.0}, 400, "invalid_value", "transactions.2.amount"),
        ({**good, "amount": MOST}, 400, "balance_out_of_range", "transactions.2.amount"),
        ({**good, "destination": "acc_none"}, 404, "not_found", "transactions.2.destination"),
        ({**good, "account": "acc_none"}, 404, "not_found", "transactions.2.account"),
        ({"account": account, "amount": 1}, 400, "missing_field", "transactions.2.type"),
        ({**good, "note": "x"}, 400, "unknown_field", "transactions.2.note"),
    ]:
        assert refused(api, {"transactions": [good, good, bad]}, path) == (status, code, param)
    assert balance(api, account) == 0
    assert api.get("/v1/transactions").json()["data"] == []


@holds("transactions-batch")
def test_a_batch_has_1_to_1000_transactions(api: httpx.Client, account: str) -> None:
    good = {"account": account, "amount": 1, "type": "credit"}
    path = "/v1/transactions/batch"
    assert refused(api, {}, path) == (400, "missing_field", "transactions")
    assert refused(api, {"transactions": []}, path) == (400, "invalid_value", "transactions")
    assert refused(api, {"transactions": [good] * 1001}, path) == (400, "invalid_value", "transactions")
    answer = api.post(path, json={"transactions": [good] * 1000})
    assert len(answer.json()["data"]) == 1000
    assert balance(api, account) == 1000
