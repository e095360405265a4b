"""Conditional requests: RFC 9110, 8.8.3 and 13.1; docs/decisions.md#conditional-changes."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from ledger_engine.core.errors import InvalidRequest, PreconditionFailed
from ledger_engine.http import operations
from ledger_engine.http.conditions import matches, parse_tags, require_match
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.exercises import OPERATIONS

# Conditional reads: an unchanged answer is not made and sent again, and a changed one always is


TILL = {"name": "Till", "currency": "EUR"}


async def test_an_unchanged_answer_is_a_304_without_a_read_of_its_own_and_with_the_headers_of_every_answer(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.post("/v1/accounts", json=TILL)
    tags = {}
    for path in ("/v1/accounts", "/v1/transactions?limit=100", "/v1/invoices", "/api/orders"):
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
    for untagged in ("/v1/requests", "/api/users", f"{path}/balance"):
        answer = await api.get(untagged, headers={"If-None-Match": tag})
        assert (answer.status_code, answer.headers.get("ETag")) == (200, None)
    refused = await api.get(path, headers={"If-None-Match": tag, "Authorization": "Bearer sk_test_no"})
    assert refused.status_code == 401


async def test_an_unchanged_object_is_a_304_whatever_else_has_changed(
    api: httpx.AsyncClient, till: str
) -> None:
    path = f"/v1/accounts/{till}"
    tag = (await api.get(path)).headers["ETag"]
    await api.post("/v1/accounts", json=TILL)
    for condition in (tag, f'"other", W/{tag}', "*"):
        answer = await api.get(path, headers={"If-None-Match": condition})
        assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", tag)


def test_a_condition_may_name_several_tags() -> None:
    assert matches(b'"b"', b'"a",W/"b"')
    assert matches(b'"b"', b"*")
    assert not matches(b'"b"', b'"ab", *')
    assert not matches(b'"b"', b"b")


# Conditional changes: a change of an object that somebody has changed since is refused


@pytest.fixture
async def draft(api: httpx.AsyncClient, till: str) -> str:
    """Return the path of a draft."""
    body = {"account": till, "customer": "Café Nord", "amount": 4500}
    return f"/v1/invoices/{(await api.post('/v1/invoices', json=body)).json()['id']}"


async def test_of_two_changes_with_one_tag_at_once_one_is_made_and_one_is_412(
    api: httpx.AsyncClient, draft: str
) -> None:
    for amount in range(100, 110):
        tag = {"If-Match": (await api.get(draft)).headers["ETag"]}
        answers = await asyncio.gather(
            *(api.patch(draft, json={"amount": amount * 10 + n}, headers=tag) for n in (1, 2))
        )
        assert sorted(answer.status_code for answer in answers) == [200, 412]
        made = next(answer for answer in answers if answer.status_code == 200)
        now = await api.get(draft)
        assert (now.json(), now.headers["ETag"]) == (made.json(), made.headers["ETag"])


async def test_a_refused_change_does_nothing_and_says_why(api: httpx.AsyncClient, draft: str) -> None:
    tag = (await api.get(draft)).headers["ETag"]
    changed = await api.patch(draft, json={"amount": 1}, headers={"If-Match": tag})
    assert changed.status_code == 200
    events = (await api.get("/v1/events")).json()
    stale = {"If-Match": tag, "Idempotency-Key": "stale"}
    for method, path in (("PATCH", draft), ("DELETE", draft), ("POST", f"{draft}/finalize")):
        answer = await api.request(method, path, headers=stale, json={})
        assert answer.status_code == 412
        error = answer.json()["error"]
        assert (error["type"], error["code"], error["param"]) == (
            "conflict",
            "precondition_failed",
            "If-Match",
        )
    assert (await api.get("/v1/events")).json() == events
    assert (await api.get(draft)).json() == changed.json()
    fresh = {"If-Match": changed.headers["ETag"], "Idempotency-Key": "stale"}
    opened = await api.post(f"{draft}/finalize", headers=fresh)  # the key was not taken
    assert (opened.status_code, opened.json()["number"]) == (200, "INV-000001")
    again = await api.post(f"{draft}/finalize", headers=fresh)
    assert again.json()["error"]["code"] == "duplicate_idempotency_key"
    assert (await api.patch(draft, json={}, headers=fresh)).status_code == 412  # and not invoice_not_draft
    assert (await api.patch(draft, json={})).json()["error"]["code"] == "invoice_not_draft"


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ("*", 200),
        ("{tag}", 200),
        ('"other", {tag}', 200),
        (' ,"a,b" ,\t{tag},', 200),
        ("W/{tag}", 412),
        ('"other"', 412),
        ('"other", *', 400),
        ("{bare}", 400),
        ("", 400),
        ('"unended', 400),
    ],
)
async def test_a_condition_is_read_as_rfc_9110_has_it(
    api: httpx.AsyncClient, draft: str, value: str, status: int
) -> None:
    tag = (await api.get(draft)).headers["ETag"]
    condition = {"If-Match": value.format(tag=tag, bare=tag.strip('"'))}
    answer = await api.patch(draft, json={"amount": 7}, headers=condition)
    assert answer.status_code == status, answer.text
    assert (await api.get(draft)).json()["amount"] == (7 if status == 200 else 4500)
    assert (await api.get(draft, headers={"If-Match": '"other"'})).status_code == 412


async def test_tags_in_several_lines_are_one_list(api: httpx.AsyncClient, draft: str) -> None:
    tag = (await api.get(draft)).headers["ETag"]
    lines = [("If-Match", tag), ("If-Match", '"other"')]
    assert (await api.patch(draft, json={"amount": 7}, headers=lines)).status_code == 200
    assert (await api.patch(draft, json={"amount": 8}, headers=lines)).status_code == 412
    lines = [("If-None-Match", (await api.get(draft)).headers["ETag"]), ("If-None-Match", '"other"')]
    assert (await api.get(draft, headers=lines)).status_code == 304


def test_a_weak_tag_is_refused_with_its_cause() -> None:
    with pytest.raises(PreconditionFailed, match="weak tag"):
        require_match(b'"a"', parse_tags(b'W/"a"', "If-Match"))
    with pytest.raises(PreconditionFailed, match="does not exist now"):
        require_match(None, parse_tags(b"*", "If-Match"))
    with pytest.raises(InvalidRequest):
        parse_tags(b'"' * 9_999, "If-Match")


@pytest.mark.parametrize("method", ["PATCH", "DELETE", "POST"])
async def test_the_change_of_an_object_that_does_not_exist_is_404(
    api: httpx.AsyncClient, till: str, method: str
) -> None:
    path = "/v1/invoices/inv_none" + ("/pay" if method == "POST" else "")
    for condition in ("*", '"a"'):
        answer = await api.request(method, path, json={}, headers={"If-Match": condition})
        assert answer.status_code == 404


@pytest.mark.parametrize(
    "name", [name for name in OPERATIONS if "<id>" in name and not name.startswith("GET")]
)
def test_each_change_of_one_object_takes_a_condition(name: str) -> None:
    assert OPERATIONS[name].changes is not None
    path = "/".join(OPERATIONS[name].path.split("/")[:4])
    assert OPERATIONS[f"GET {path}"].shows_one


async def test_each_kind_of_object_has_a_tag_that_its_changes_take(api_with: Run, till: str) -> None:
    api = await api_with(role="owner")

    async def made(path: str, **body: Any) -> str:
        answer = await api.post(path, json=body)
        assert answer.status_code == 201, answer.text
        assert "ETag" not in answer.headers
        return f"{path}/{answer.json()['id']}"

    user = await made("/api/users", name="Ada", email="ada@example.com")
    order = await made("/api/orders", user_id=user.rpartition("/")[2], items=[{}])
    posted = await made("/v1/transactions", account=till, amount=1, type="credit")
    endpoint = await made("/v1/webhook_endpoints", url="http://127.0.0.1:9/hook")
    key = await made("/v1/api_keys", name="till")
    project = await made("/v1/projects", name="Roastery")
    event = f"/v1/events/{(await api.get('/v1/events')).json()['data'][0]['id']}"
    for object, changes in (
        (order, ["POST /pay", "POST /ship"]),
        (user, ["DELETE ", "POST /restore"]),
        (posted, ["POST /reverse"]),
        (endpoint, ["POST /disable", "POST /enable", "POST /roll_secret", "DELETE "]),
        (key, ["POST /roll", "DELETE "]),
        (project, ["PATCH ", "DELETE "]),
        (event, ["POST /resend"]),
        ("/v1/billing", ["PATCH "]),
    ):
        for change in changes:
            method, action = change.split(" ")
            tag = (await api.get(object)).headers["ETag"]
            body = {"name": "Other"} if (object, method) == (project, "PATCH") else {}
            refused = await api.request(method, object + action, json=body, headers={"If-Match": '"other"'})
            assert refused.status_code == 412, (change, refused.text)
            if object.startswith("/api/"):
                assert refused.json()["error"] == "precondition_failed"
            assert (await api.get(object)).headers["ETag"] == tag
            answer = await api.request(method, object + action, json=body, headers={"If-Match": tag})
            assert answer.status_code in (200, 201), (change, answer.text)
            if answer.headers.get("ETag") and method != "POST" and object != endpoint:
                assert (await api.get(object)).headers["ETag"] == answer.headers["ETag"]
    deleted = await api.post(f"{endpoint}/restore", headers={"If-Match": "*"})
    assert deleted.status_code == 412
    assert (await api.post(f"{endpoint}/restore")).status_code == 200
