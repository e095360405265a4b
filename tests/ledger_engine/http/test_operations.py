"""What is declared of a route is done for it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import httpx
import pytest

from ledger_engine.access import credentials
from ledger_engine.events import outbox
from ledger_engine.http import operations
from ledger_engine.http.operations import Operation, matches
from ledger_engine.store import Work
from ledger_engine.store.engine import Engine
from ledger_engine.store.threaded import ReadingThreads
from tests.ledger_engine.exercises import OPERATIONS

SECRETS = {"access_token", "refresh_token", "secret", "key", "api_key"}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_answer_with_a_secret_is_declared_as_one(operation: Operation) -> None:
    shown = fields(operation.answer) if operation.answer is not None else ()
    assert operation.secret == bool({field.name for field in shown} & SECRETS)


async def test_only_what_reads_a_few_rows_by_an_index_is_short(
    api: httpx.AsyncClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def note(_: object, work: Work[object]) -> None:
        if getattr(work, "func", None) not in (outbox.last_change, credentials.find):  # for every operation
            found.append(path)

    readers: type[ReadingThreads[Any]] = type(engine._database._readers)  # type: ignore[attr-defined]
    monkeypatch.setattr(readers, "run_at_once", note)
    made = await api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
    account = f"/v1/accounts/{made.json()['id']}"
    short = [account, f"{account}/balance", "/v1/accounts", "/v1/transactions?limit=100"]
    others = [
        f"{account}/balance?at=2026-11-20T00:00:00Z",
        f"{account}/statement?from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z",
        "/v1/accounts?limit=21",
        "/v1/events",
        "/v1/requests?status=400",
        "/api/users",
    ]
    for path in (*short, *others):
        answer = await api.get(path)
        assert answer.status_code == 200, answer.text
    assert found == short


# Conditional reads: an unchanged answer is not made and sent again, and a changed one always is


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
