"""docs/interface.md#authentication, #token-endpoint; docs/decisions.md#credentials."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from ledger_engine.core.settings import Location
from ledger_engine.http.gate.gate import AuthRateLimit
from tests.contract.clockwork import Clockwork
from tests.contract.conftest import MakeKey, Project, code_of
from tests.contract.raw import Wire
from tests.contract.rules import holds


def exchange(anyone: httpx.Client, value: str, grant: str = "api_key") -> httpx.Response:
    return anyone.post("/v1/auth/token", json={"grant_type": grant, grant: value})


def bearer(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}


@holds("auth-bearer", "credentials-authorization", "auth-401", "errors-401")
@pytest.mark.parametrize(
    "header",
    [
        b"Bearer  KEY",
        b"bearer KEY",
        b"BEARER KEY",
        b'Bearer "KEY"',
        b"Bearer 'KEY'",
        b"Bearer\tKEY",
        b"Bearer KEY x",
        b"Bearer KEY,",
        b"Bearer",
        b"Bearer ",
        b"KEY",
        b"BearerKEY",
        b"Bearer <KEY>",
        b"Bearer KEYA",
        b"Bearer KEY, Bearer KEY",
        b"Basic KEY",
        b"Token KEY",
        b"Bearer k\xc3\xa9y",
        b"Bearer KEY\xff",
        b"Bearer sk_test_" + b"0" * 32,
        b"Bearer " + b"k" * 9000,
    ],
)
def test_anything_but_bearer_one_space_and_the_key_is_401(wire: Wire, header: bytes) -> None:
    line = b"Authorization: " + header.replace(b"KEY", wire.key.encode()) + b"\r\n"
    for path, shape in (("/v1/accounts", dict), ("/api/users", str)):
        head = wire.head("GET", path, key="")
        answer = wire.ask(head.replace(b"\r\n\r\n", b"\r\n" + line + b"\r\n"))
        assert answer.status == 401
        assert isinstance(answer.json()["error"], shape)
        assert answer.headers["www-authenticate"].startswith("Bearer")


@holds("auth-bearer", "credentials-authorization")
@pytest.mark.parametrize("size", [20_000, 1_000_000])
def test_a_key_of_any_size_is_401(wire: Wire, size: int) -> None:
    assert wire.ask(wire.head("GET", "/v1/accounts", key="k" * size)).status == 401
    assert wire.ask(wire.head("GET", "/v1/accounts")).status == 200


@holds("auth-bearer")
@pytest.mark.parametrize("name", ["access_token", "api_key", "Authorization", "key"])
def test_a_key_in_the_query_is_no_credential(wire: Wire, name: str) -> None:
    answer = wire.ask(wire.head("GET", f"/v1/accounts?{name}={wire.key}", key=""))
    assert (answer.status, answer.json()["error"]["code"]) == (401, "missing_credential")


@holds(
    "post-auth-token-api-key",
    "post-auth-token-json",
    "token-access-token",
    "token-token-type",
    "token-expires-in",
    "auth-access-token",
    "credentials-tokens",
    "credentials-token-open",
)
def test_a_key_is_exchanged_for_tokens(anyone: httpx.Client, project: Project) -> None:
    answer = exchange(anyone, project.key)
    assert answer.status_code == 200
    tokens = answer.json()
    assert list(tokens) == ["access_token", "token_type", "expires_in", "refresh_token"]
    assert tokens["access_token"].startswith("at_")
    assert tokens["refresh_token"].startswith("rt_")
    assert (tokens["token_type"], tokens["expires_in"]) == ("Bearer", 3600)
    assert (answer.headers["Cache-Control"], answer.headers["Pragma"]) == ("no-store", "no-cache")
    assert anyone.get("/v1/accounts", headers=bearer(tokens["access_token"])).status_code == 200


@holds(
    "post-auth-token-refresh-token", "auth-refresh-once", "token-refresh-token", "credentials-refresh-used"
)
def test_a_refresh_token_works_once_and_the_newer_one_goes_on(anyone: httpx.Client, project: Project) -> None:
    first = exchange(anyone, project.key).json()
    second = exchange(anyone, first["refresh_token"], "refresh_token")
    assert second.status_code == 200
    assert second.json()["refresh_token"] != first["refresh_token"]
    assert second.json()["access_token"] != first["access_token"]
    used = exchange(anyone, first["refresh_token"], "refresh_token")
    error = used.json()["error"]
    assert (used.status_code, error["type"], error["code"], error["param"]) == (
        401,
        "authentication_error",
        "invalid_credential",
        "refresh_token",
    )
    assert exchange(anyone, second.json()["refresh_token"], "refresh_token").status_code == 200


@holds("auth-refresh-once")
def test_of_twenty_uses_of_a_refresh_token_at_once_one_succeeds(location: Location) -> None:
    with Clockwork(location, auth_rate_limit=AuthRateLimit(1000, 1000)) as clockwork:
        anyone = clockwork.client()
        refresh = exchange(anyone, clockwork.key(clockwork.project())).json()["refresh_token"]

        def use(_: int) -> int:
            return exchange(anyone, refresh, "refresh_token").status_code

        with ThreadPoolExecutor(20) as callers:
            statuses = sorted(callers.map(use, range(20)))
    assert statuses == [200] + [401] * 19


@holds("credentials-token-open", "error-codes", "post-auth-token-json")
@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "missing_field", "grant_type"),
        ({"api_key": "x"}, "missing_field", "grant_type"),
        ({"grant_type": None}, "invalid_value", "grant_type"),
        ({"grant_type": 1, "api_key": "x"}, "invalid_value", "grant_type"),
        ({"grant_type": ["api_key"], "api_key": "x"}, "invalid_value", "grant_type"),
        ({"grant_type": "password", "password": "x"}, "unsupported_grant_type", "grant_type"),
        ({"grant_type": "", "api_key": "x"}, "unsupported_grant_type", "grant_type"),
        ({"grant_type": "API_KEY", "api_key": "x"}, "unsupported_grant_type", "grant_type"),
        ({"grant_type": "api_key"}, "missing_field", "api_key"),
        ({"grant_type": "api_key", "api_key": None}, "invalid_value", "api_key"),
        ({"grant_type": "api_key", "api_key": 5}, "invalid_value", "api_key"),
        ({"grant_type": "api_key", "api_key": "x", "refresh_token": "rt"}, "unknown_field", "refresh_token"),
        ({"grant_type": "api_key", "refresh_token": "rt"}, "unknown_field", "refresh_token"),
        ({"grant_type": "api_key", "api_key": "x", "scope": "x"}, "unknown_field", "scope"),
        ({"grant_type": "api_key", "api_key": "x", "role": "owner"}, "unknown_field", "role"),
        ({"grant_type": "refresh_token"}, "missing_field", "refresh_token"),
        ({"grant_type": "refresh_token", "refresh_token": None}, "invalid_value", "refresh_token"),
        ({"grant_type": "refresh_token", "refresh_token": "rt", "api_key": "x"}, "unknown_field", "api_key"),
        ({"grant_type": "refresh_token", "api_key": "x"}, "unknown_field", "api_key"),
    ],
)
def test_another_exchange_is_refused(
    anyone: httpx.Client, body: dict[str, Any], code: str, param: str
) -> None:
    answer = anyone.post("/v1/auth/token", json=body)
    assert code_of(answer) == (400, code)
    assert answer.json()["error"]["param"] == param


@holds("credentials-token-open", "error-codes")
@pytest.mark.parametrize("grant", ["api_key", "refresh_token"])
@pytest.mark.parametrize("value", ["", "x", "sk_test_" + "0" * 32, "rt_" + "A" * 32, "é", "A" * 1_000_000])
def test_an_unknown_value_is_not_exchanged(anyone: httpx.Client, grant: str, value: str) -> None:
    answer = exchange(anyone, value, grant)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (401, "authentication_error")
    assert (error["code"], error["param"]) == ("invalid_credential", grant)


@holds("credentials-token-open")
@pytest.mark.parametrize("header", ["", "bearer x", "Bearer sk_test_none"])
def test_an_exchange_looks_at_no_credential_and_takes_no_idempotency_key(
    anyone: httpx.Client, project: Project, header: str
) -> None:
    body = {"grant_type": "api_key", "api_key": project.key}
    headers = {"Authorization": header, "Idempotency-Key": "once"}
    for _ in range(2):
        assert anyone.post("/v1/auth/token", json=body, headers=headers).status_code == 200
    till = {"name": "Till", "currency": "EUR"}
    once = {"Idempotency-Key": "once"}
    assert project.api.post("/v1/accounts", json=till, headers=once).status_code == 201


@holds("post-auth-token-json")
def test_a_form_is_no_json(anyone: httpx.Client, project: Project) -> None:
    answer = anyone.post("/v1/auth/token", data={"grant_type": "api_key", "api_key": project.key})
    assert code_of(answer) == (400, "unsupported_content_type")


@holds("auth-access-token-expiry", "auth-401", "error-codes")
def test_an_access_token_expires_after_3600_seconds(clockwork: Clockwork) -> None:
    anyone = clockwork.client()
    tokens = exchange(anyone, clockwork.key(clockwork.project())).json()
    clockwork.advance(3599)
    assert anyone.get("/v1/accounts", headers=bearer(tokens["access_token"])).status_code == 200
    clockwork.advance(1)
    expired = anyone.get("/v1/accounts", headers=bearer(tokens["access_token"]))
    assert code_of(expired) == (401, "expired_credential")
    refreshed = exchange(anyone, tokens["refresh_token"], "refresh_token").json()
    clockwork.advance(30 * 86_400)
    late = exchange(anyone, refreshed["refresh_token"], "refresh_token")
    assert code_of(late) == (401, "expired_credential")


@holds("credentials-token-rights")
def test_a_token_may_what_its_key_may(anyone: httpx.Client, api: httpx.Client) -> None:
    made = api.post("/v1/api_keys", json={"role": "member", "scopes": ["read:projects"]}).json()
    token = exchange(anyone, made["key"]).json()["access_token"]
    whoami = anyone.get("/v1/whoami", headers=bearer(token)).json()
    assert (whoami["kind"], whoami["role"], whoami["scopes"]) == ("access_token", "member", ["read:projects"])
    assert (whoami["id"], whoami["livemode"]) == (made["id"], False)
    body = {"name": "Till", "currency": "EUR"}
    assert code_of(anyone.post("/v1/accounts", json=body, headers=bearer(token))) == (403, "missing_scope")


@holds("credentials-user-role")
def test_only_an_equal_or_higher_role_creates_an_admin_or_owner(with_key: MakeKey) -> None:
    for role, may in [("member", {"member"}), ("admin", {"member", "admin"})]:
        client = with_key(role)
        for wanted in ("member", "admin", "owner"):
            body = {"name": "Ada", "email": f"{role}.{wanted}@example.com", "role": wanted}
            assert (client.post("/api/users", json=body).status_code == 201) == (wanted in may)
