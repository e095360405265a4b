"""Conditional reads: an unchanged answer is not made and sent again, and a changed one always is."""

from __future__ import annotations

import httpx
import pytest

from ledger_engine.http import operations
from ledger_engine.http.etags import matches

TILL = {"name": "Till", "currency": "EUR"}


async def test_an_unchanged_answer_is_a_304_without_a_read_of_its_own_and_with_the_headers_of_every_answer(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = (await api.post("/v1/accounts", json=TILL)).json()["id"]
    tags = {}
    for path in (f"/v1/accounts/{account}", "/v1/accounts", "/v1/transactions?limit=100", "/v1/invoices"):
        answer = await api.get(path)
        await api.get(path, headers={"If-None-Match": '"other"'})
        tags[path] = (await api.get(path, headers={"If-None-Match": '"other"'})).headers["ETag"]
        assert answer.status_code == 200
    assert len(set(tags.values())) == 4

    async def read(*_: object, **__: object) -> None:
        raise AssertionError("the answer was read")

    for name in ("read", "read_short"):
        monkeypatch.setattr(operations.Call, name, read)
    for path, tag in tags.items():
        answer = await api.get(path, headers={"If-None-Match": f'"other", W/{tag}'})
        assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", tag)
        assert {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Request-Id"} <= {
            name.title().replace("Ratelimit", "RateLimit") for name in answer.headers
        }
        assert "content-length" not in answer.headers


async def test_a_change_makes_another_tag_and_an_answer_without_one_is_never_a_304(
    api: httpx.AsyncClient,
) -> None:
    account = (await api.post("/v1/accounts", json=TILL)).json()["id"]
    path = f"/v1/accounts/{account}"
    condition = {"If-None-Match": '"other"'}
    tag = (await api.get(path, headers=condition)).headers["ETag"]
    await api.post("/v1/transactions", json={"account": account, "amount": 5, "type": "credit"})
    changed = await api.get(path, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["balance"]) == (200, 5)
    assert changed.headers["ETag"] != tag
    tag = changed.headers["ETag"]
    for other in ("/v1/accounts/acc_none", "/v1/accounts?limit=x"):
        assert (await api.get(other, headers={"If-None-Match": tag})).status_code in (400, 404)
    for untagged in ("/v1/whoami", "/v1/requests", "/api/users", f"{path}/balance"):
        answer = await api.get(untagged, headers={"If-None-Match": tag})
        assert (answer.status_code, answer.headers.get("ETag")) == (200, None)
    refused = await api.get(path, headers={"If-None-Match": tag, "Authorization": "Bearer sk_test_no"})
    assert refused.status_code == 401


def test_a_condition_may_name_several_tags() -> None:
    assert matches(b'"b"', b'"a",W/"b"')
    assert not matches(b'"b"', b'"ab", *')
