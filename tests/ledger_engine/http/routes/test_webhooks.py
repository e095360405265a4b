"""Webhook endpoints over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from ledger_engine.events import outbox
from ledger_engine.events.webhooks import endpoints
from ledger_engine.store.engine import Engine
from tests.ledger_engine.conftest import Run

PATH = "/v1/webhook_endpoints"
URL = "http://127.0.0.1:4242/hook"


async def register(api: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await api.post(PATH, json={"url": URL, "events": ["*"]} | body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_a_new_endpoint_shows_its_secret_and_never_again(api: httpx.AsyncClient) -> None:
    made = await register(api, events=["invoice.paid"])
    secret = made.pop("secret")
    assert secret.startswith("whsec_")
    assert made == {
        "id": made["id"],
        "object": "webhook_endpoint",
        "url": URL,
        "events": ["invoice.paid"],
        "status": "enabled",
        "disabled_reason": None,
        "disabled_at": None,
        "created": "2026-09-21T14:13:20.000Z",
        "livemode": False,
    }
    assert made["id"].startswith("whe_")
    assert (await api.get(f"{PATH}/{made['id']}")).json() == made
    listed = await api.get(PATH)
    assert listed.json() == {"data": [made], "has_more": False, "next_cursor": None}
    assert secret not in listed.text


async def test_without_kinds_every_event_is_sent(api: httpx.AsyncClient) -> None:
    answer = await api.post(PATH, json={"url": URL})
    assert (answer.status_code, answer.json()["events"]) == (201, ["*"])


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "missing_field", "url"),
        ({"url": 7}, "invalid_value", "url"),
        ({"url": ""}, "invalid_value", "url"),
        ({"url": "https://169.254.169.254/latest/meta-data"}, "invalid_value", "url"),
        ({"url": "https://localhost.localdomain.invalid:0/"}, "invalid_value", "url"),
        ({"url": URL, "events": []}, "invalid_value", "events"),
        ({"url": URL, "events": "*"}, "invalid_value", "events"),
        ({"url": URL, "events": ["invoice.eaten"]}, "invalid_value", "events.0"),
        ({"url": URL, "secret": "whsec_mine"}, "unknown_field", "secret"),
        ({"url": URL, "livemode": True}, "unknown_field", "livemode"),
        ({"url": URL, "status": "disabled"}, "unknown_field", "status"),
    ],
)
async def test_a_bad_registration_is_a_400_that_names_the_field(
    api: httpx.AsyncClient, body: dict[str, Any], code: str, param: str
) -> None:
    answer = await api.post(PATH, json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert (await api.get(PATH)).json()["data"] == []


async def test_rolling_shows_the_new_secret_once(api: httpx.AsyncClient, engine: Engine) -> None:
    made = await register(api)
    answer = await api.post(f"{PATH}/{made['id']}/roll_secret")
    assert answer.status_code == 200
    rolled = answer.json()
    assert rolled["secret"].startswith("whsec_")
    assert rolled["secret"] != made["secret"]
    assert rolled | {"secret": made["secret"]} == made
    assert await engine.read(endpoints.sealed_secrets) == [(made["id"], rolled["secret"])]


async def test_with_a_key_no_secret_is_readable_in_the_file(
    api: httpx.AsyncClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_SECRET_KEY", "correct horse")
    made = await register(api)
    rolled = (await api.post(f"{PATH}/{made['id']}/roll_secret")).json()
    ((_, stored),) = await engine.read(endpoints.sealed_secrets)
    assert not {made["secret"], rolled["secret"]} & {stored}
    assert rolled["secret"] not in stored


async def test_an_endpoint_is_disabled_enabled_and_deleted(api: httpx.AsyncClient) -> None:
    id = (await register(api))["id"]
    disabled = (await api.post(f"{PATH}/{id}/disable")).json()
    assert (disabled["status"], disabled["disabled_reason"]) == ("disabled", "asked")
    enabled = (await api.post(f"{PATH}/{id}/enable")).json()
    assert (enabled["status"], enabled["disabled_reason"], enabled["disabled_at"]) == ("enabled", None, None)
    deleted = await api.delete(f"{PATH}/{id}")
    assert (deleted.status_code, deleted.json()["id"]) == (200, id)
    assert (await api.get(f"{PATH}/{id}")).status_code == 404
    assert (await api.delete(f"{PATH}/{id}")).status_code == 404


async def test_a_deleted_endpoint_is_restored_with_a_new_secret(
    api: httpx.AsyncClient, stranger_api: httpx.AsyncClient, api_with: Run, engine: Engine
) -> None:
    made = await register(api)
    path = f"{PATH}/{made['id']}"
    await api.delete(path)
    assert (await stranger_api.post(f"{path}/restore")).status_code == 404
    reader = await api_with(scopes=["read:projects"])
    assert (await reader.post(f"{path}/restore")).status_code == 403
    answer = await api.post(f"{path}/restore")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")
    restored = answer.json()
    assert restored["secret"] != made["secret"]
    assert restored | {"secret": made["secret"]} == made
    assert await engine.read(endpoints.sealed_secrets) == [(made["id"], restored["secret"])]
    again = await api.post(f"{path}/restore")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "not_recoverable")


async def test_a_second_use_of_a_key_is_409(api: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "once"}
    made = (await api.post(PATH, json={"url": URL}, headers=headers)).json()
    again = await api.post(PATH, json={"url": URL}, headers=headers)
    assert (again.status_code, again.headers["Idempotency-Original"]) == (409, made["id"])
    assert len((await api.get(PATH)).json()["data"]) == 1


async def test_who_may_not_read_users_is_not_sent_their_events(api_with: Run) -> None:
    writer = await api_with(scopes=["write:projects"])
    answer = await writer.post(PATH, json={"url": URL, "events": ["order.paid", "user.created"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "missing_scope")
    answer = await writer.post(PATH, json={"url": URL, "events": ["order.paid"]})
    assert (answer.status_code, answer.json()["events"]) == (201, ["order.paid"])
    answer = await writer.post(PATH, json={"url": URL})
    assert answer.status_code == 201
    assert set(outbox.KINDS) - set(answer.json()["events"]) == set(outbox.USER_KINDS)
    reader = await api_with(scopes=["write:projects", "read:users"])
    answer = await reader.post(PATH, json={"url": URL, "events": ["*"]})
    assert (answer.status_code, answer.json()["events"]) == (201, ["*"])


async def test_deliveries_are_a_list(api: httpx.AsyncClient) -> None:
    path = f"{PATH}/{(await register(api))['id']}/deliveries"
    assert (await api.get(path)).json() == {"data": [], "has_more": False, "next_cursor": None}
    answer = await api.get(path, params={"cursor": "dlv_none"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_cursor")
    assert (await api.get(path, params={"limit": "101"})).status_code == 400
