"""POST /v1/auth/token (docs/interface.md#token-endpoint, #auth-access-token, #auth-refresh-once)."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from quart import Quart

from ledger_engine.http.app import create_app
from ledger_engine.http.protocol.gate import AuthRateLimit
from ledger_engine.store.engine import Engine
from tests.ledger_engine.manual_clock import ManualClock

PATH = "/v1/auth/token"
KEY = "sk_test_" + "A" * 32


@pytest.fixture
def app(engine: Engine) -> Quart:
    """Return an application without the limit of authentication endpoints, which test_limits.py tests."""
    return create_app(engine, auth_rate_limit=AuthRateLimit(1_000_000, 1_000_000))


async def exchange(client: httpx.AsyncClient, value: str) -> httpx.Response:
    return await client.post(PATH, json={"grant_type": "api_key", "api_key": value})


async def refresh(client: httpx.AsyncClient, value: str) -> httpx.Response:
    return await client.post(PATH, json={"grant_type": "refresh_token", "refresh_token": value})


def bearer(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}


async def test_an_api_key_is_exchanged_for_a_pair_of_tokens(anyone: httpx.AsyncClient, make_key: Any) -> None:
    answer = await exchange(anyone, await make_key())
    assert answer.status_code == 200
    token = answer.json()
    assert token.keys() == {"access_token", "token_type", "expires_in", "refresh_token"}
    assert (token["token_type"], token["expires_in"]) == ("Bearer", 3600)
    assert token["access_token"].startswith("at_")
    assert token["refresh_token"].startswith("rt_")
    assert (answer.headers["Cache-Control"], answer.headers["Pragma"]) == ("no-store", "no-cache")


async def test_the_access_token_is_sent_as_a_bearer_token(anyone: httpx.AsyncClient, make_key: Any) -> None:
    token = (await exchange(anyone, await make_key(livemode=True))).json()["access_token"]
    made = await anyone.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}, headers=bearer(token))
    assert (made.status_code, made.json()["livemode"]) == (201, True)


async def test_a_token_of_a_restricted_key_is_restricted(anyone: httpx.AsyncClient, make_key: Any) -> None:
    key = await make_key(role="member", scopes=["read:projects"])
    headers = bearer((await exchange(anyone, key)).json()["access_token"])
    assert (await anyone.get("/v1/accounts", headers=headers)).status_code == 200
    refused = await anyone.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_scope")


async def test_a_refresh_gives_a_new_pair_and_the_old_refresh_token_stops_working(
    anyone: httpx.AsyncClient, make_key: Any
) -> None:
    first = (await exchange(anyone, await make_key())).json()
    answer = await refresh(anyone, first["refresh_token"])
    assert answer.status_code == 200
    second = answer.json()
    assert second.keys() == first.keys()
    assert {*first.values()} & {*second.values()} == {"Bearer", 3600}

    again = await refresh(anyone, first["refresh_token"])
    assert again.status_code == 401
    error = again.json()["error"]
    assert (error["type"], error["code"], error["param"]) == (
        "authentication_error",
        "invalid_credential",
        "refresh_token",
    )
    assert (await refresh(anyone, second["refresh_token"])).status_code == 200


async def test_of_20_refreshes_at_once_one_succeeds(anyone: httpx.AsyncClient, make_key: Any) -> None:
    token = (await exchange(anyone, await make_key())).json()["refresh_token"]
    answers = await asyncio.gather(*(refresh(anyone, token) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [401] * 19


async def test_revoking_the_key_kills_its_tokens_at_once(
    anyone: httpx.AsyncClient, api: httpx.AsyncClient, make_key: Any
) -> None:
    made = (await api.post("/v1/api_keys", json={})).json()
    token = (await exchange(anyone, made["key"])).json()
    assert (await anyone.get("/v1/whoami", headers=bearer(token["access_token"]))).status_code == 200
    await api.delete(f"/v1/api_keys/{made['id']}")
    for answer in (
        await anyone.get("/v1/whoami", headers=bearer(token["access_token"])),
        await refresh(anyone, token["refresh_token"]),
        await exchange(anyone, made["key"]),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "revoked_credential")


async def test_a_refresh_token_expires_after_30_days(
    anyone: httpx.AsyncClient, make_key: Any, clock: ManualClock
) -> None:
    token = (await exchange(anyone, await make_key())).json()["refresh_token"]
    clock.advance(30 * 86_400_000)
    answer = await refresh(anyone, token)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "expired_credential")


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "missing_field", "grant_type"),
        ({"api_key": KEY}, "missing_field", "grant_type"),
        ({"grant_type": None}, "invalid_value", "grant_type"),
        ({"grant_type": 1, "api_key": KEY}, "invalid_value", "grant_type"),
        ({"grant_type": ["api_key"], "api_key": KEY}, "invalid_value", "grant_type"),
        ({"grant_type": "password", "api_key": KEY}, "unsupported_grant_type", "grant_type"),
        ({"grant_type": "", "api_key": KEY}, "unsupported_grant_type", "grant_type"),
        ({"grant_type": "API_KEY", "api_key": KEY}, "unsupported_grant_type", "grant_type"),
        ({"grant_type": "api_key"}, "missing_field", "api_key"),
        ({"grant_type": "api_key", "api_key": None}, "invalid_value", "api_key"),
        ({"grant_type": "api_key", "api_key": 5}, "invalid_value", "api_key"),
        ({"grant_type": "api_key", "api_key": KEY, "refresh_token": "rt"}, "unknown_field", "refresh_token"),
        ({"grant_type": "api_key", "refresh_token": "rt"}, "unknown_field", "refresh_token"),
        ({"grant_type": "api_key", "api_key": KEY, "scope": "x"}, "unknown_field", "scope"),
        ({"grant_type": "api_key", "api_key": KEY, "role": "owner"}, "unknown_field", "role"),
        ({"grant_type": "refresh_token"}, "missing_field", "refresh_token"),
        ({"grant_type": "refresh_token", "refresh_token": None}, "invalid_value", "refresh_token"),
        ({"grant_type": "refresh_token", "refresh_token": "rt", "api_key": KEY}, "unknown_field", "api_key"),
        ({"grant_type": "refresh_token", "api_key": KEY}, "unknown_field", "api_key"),
    ],
)
async def test_a_body_that_does_not_fit_is_400_by_name(
    anyone: httpx.AsyncClient, body: dict[str, Any], code: str, param: str
) -> None:
    answer = await anyone.post(PATH, json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request", code, param)


@pytest.mark.parametrize("grant", ["api_key", "refresh_token"])
@pytest.mark.parametrize("value", ["", "x", KEY, "rt_" + "A" * 32, "é", "A" * 1_000_000])
async def test_an_unknown_value_is_401(anyone: httpx.AsyncClient, grant: str, value: str) -> None:
    answer = await anyone.post(PATH, json={"grant_type": grant, grant: value})
    assert answer.status_code == 401
    error = answer.json()["error"]
    assert (error["type"], error["code"], error["param"]) == (
        "authentication_error",
        "invalid_credential",
        grant,
    )


async def test_the_body_is_json_and_no_form(anyone: httpx.AsyncClient, make_key: Any) -> None:
    answer = await anyone.post(PATH, data={"grant_type": "api_key", "api_key": await make_key()})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported_content_type")


@pytest.mark.parametrize("header", ["", "bearer x", "Bearer sk_test_none"])
async def test_the_authorization_header_is_not_looked_at(
    anyone: httpx.AsyncClient, make_key: Any, header: str
) -> None:
    body = {"grant_type": "api_key", "api_key": await make_key()}
    answer = await anyone.post(PATH, json=body, headers={"Authorization": header})
    assert answer.status_code == 200


async def test_a_token_takes_no_idempotency_key(
    anyone: httpx.AsyncClient, api: httpx.AsyncClient, make_key: Any
) -> None:
    body = {"grant_type": "api_key", "api_key": await make_key()}
    once = {"Idempotency-Key": "once"}
    for _ in range(2):
        assert (await anyone.post(PATH, json=body, headers=once)).status_code == 200
    made = await api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}, headers=once)
    assert made.status_code == 201


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_only_post_is_allowed(anyone: httpx.AsyncClient, method: str) -> None:
    answer = await anyone.request(method, PATH)
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
    assert answer.headers["Allow"] == "POST"
