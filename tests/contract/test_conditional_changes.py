"""docs/decisions.md#conditional-changes, over sockets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from ledger_client import Ledger
from ledger_client.errors import PreconditionFailed
from tests.contract.conftest import refusal
from tests.contract.rules import holds
from tests.contract.test_invoices import draft


@holds("etags-objects", "if-match")
def test_a_change_with_the_tag_of_an_older_state_is_412_and_does_nothing(
    api: httpx.Client, account: str
) -> None:
    path = f"/v1/invoices/{draft(api, account)['id']}"
    tag = api.get(path).headers["ETag"]
    changed = api.patch(path, json={"customer": "First"}, headers={"If-Match": tag})
    assert (changed.status_code, changed.headers["ETag"] != tag) == (200, True)
    for method, target in (("PATCH", path), ("DELETE", path), ("POST", f"{path}/finalize")):
        answer = api.request(method, target, json={"customer": "Second"} if method == "PATCH" else {})
        assert answer.status_code != 412, "without the header nothing is different"
        answer = api.request(method, target, json={}, headers={"If-Match": tag})
        assert refusal(answer)[:2] == (412, "precondition_failed")
    user = api.post("/api/users", json={"name": "Ada", "email": f"{account}@example.com"}).json()["id"]
    answer = api.delete(f"/api/users/{user}", headers={"If-Match": tag})
    assert (answer.status_code, answer.json()["error"]) == (412, "precondition_failed")
    assert api.get(f"/api/users/{user}").json()["status"] == "active"


@holds("if-match-race")
def test_of_two_changes_with_one_tag_at_once_one_is_made(api: httpx.Client, account: str) -> None:
    path = f"/v1/invoices/{draft(api, account)['id']}"
    with ThreadPoolExecutor(8) as threads:
        for round in range(1, 6):
            tag = api.get(path).headers["ETag"]

            def change(amount: int, tag: str = tag) -> httpx.Response:
                return api.patch(path, json={"amount": amount}, headers={"If-Match": tag})

            answers = list(threads.map(change, range(round * 100, round * 100 + 8)))
            statuses = sorted(answer.status_code for answer in answers)
            assert statuses == [200] + [412] * 7
            made = next(answer for answer in answers if answer.status_code == 200)
            assert api.get(path).json() == made.json()


@holds("if-match-values")
@pytest.mark.parametrize(
    ("value", "status"), [("*", 200), ('"a", {tag}', 200), ("W/{tag}", 412), ('"a"', 412), ("a", 400)]
)
def test_if_match_is_read_as_rfc_9110_has_it(
    api: httpx.Client, account: str, value: str, status: int
) -> None:
    path = f"/v1/invoices/{draft(api, account)['id']}"
    tag: Any = api.get(path).headers["ETag"]
    answer = api.patch(path, json={"amount": 7}, headers={"If-Match": value.format(tag=tag)})
    assert answer.status_code == status


def test_the_client_overwrites_nothing_that_somebody_has_changed(api: httpx.Client, account: str) -> None:
    key = api.headers["Authorization"].removeprefix("Bearer ")
    with Ledger(str(api.base_url), key) as ledger:
        mine = ledger.invoices.get(draft(api, account)["id"])
        theirs = ledger.invoices.change(mine.id, customer="Theirs", if_match=mine.etag)
        with pytest.raises(PreconditionFailed) as caught:
            ledger.invoices.change(mine.id, customer="Mine", if_match=mine.etag)
        assert (caught.value.status, caught.value.code) == (412, "precondition_failed")
        with pytest.raises(PreconditionFailed):
            ledger.invoices.finalize(mine.id, if_match=mine.etag)
        assert ledger.invoices.get(mine.id).customer == "Theirs"
        assert ledger.invoices.finalize(mine.id, if_match=theirs.etag).status == "open"
