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


async def test_with_a_key_no_secret_is_readable_in_the_file(
    api: httpx.AsyncClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_SECRET_KEY", "correct horse")
    made = await register(api)
    rolled = (await api.post(f"{PATH}/{made['id']}/roll_secret")).json()
    ((_, stored),) = await engine.read(endpoints.sealed_secrets)
    assert not {made["secret"], rolled["secret"]} & {stored}
    assert rolled["secret"] not in stored


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
