"""POST /oauth/token (docs/interface.md#oauth; docs/decisions.md#oauth; RFC 6749, 7636, 9700)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import httpx
import pytest

from ledger_engine.access.oauth import apps, grants
from ledger_engine.access.oauth.apps import App, NewApp
from ledger_engine.core.tenant import Tenant
from ledger_engine.store.engine import Engine
from tests.ledger_engine.access.oauth.conftest import LOOPBACK, REDIRECT, SCOPES, VERIFIER, Browser
from tests.ledger_engine.manual_clock import ManualClock

FORM = "application/x-www-form-urlencoded"
DAY = 86_400_000


def is_refused(answer: httpx.Response, error: str, status: int = 400) -> bool:
    body = answer.json()
    return (
        answer.status_code == status
        and body.keys() == {"error", "error_description"}
        and body["error"] == error
        and answer.headers["Content-Type"] == "application/json"
    )


async def works(browser: Browser, token: dict[str, Any]) -> bool:
    return (await browser.use(token["access_token"])).status_code == 200


@pytest.fixture
async def other(engine: Engine, tenant: Tenant) -> App:
    """Another app of the same project and mode, with the same addresses."""
    return await engine.write(partial(apps.create, tenant=tenant, new=NewApp("Other", [REDIRECT, LOOPBACK])))


# The literal contract


async def test_code_and_verifier_are_enough_as_json(browser: Browser) -> None:
    answer = await browser.http.post(
        "/oauth/token", json={"code": await browser.code(), "code_verifier": VERIFIER}
    )
    assert answer.status_code == 200
    token = answer.json()
    assert token.keys() == {"access_token", "token_type", "expires_in", "refresh_token", "scope"}
    assert (token["token_type"], token["expires_in"], token["scope"]) == ("Bearer", 3600, SCOPES)
    assert token["access_token"].startswith("at_")
    assert token["refresh_token"].startswith("rt_")
    assert len(token["access_token"]) == len(token["refresh_token"]) == 35
    assert answer.headers["Cache-Control"] == "no-store"
    assert await works(browser, token)


@pytest.mark.parametrize(
    "more",
    [
        {"grant_type": "authorization_code"},
        {"redirect_uri": REDIRECT},
        {"grant_type": "authorization_code", "redirect_uri": REDIRECT, "client_secret": "", "resource": "x"},
        {"grant_type": "", "redirect_uri": "", "client_id": ""},
    ],
)
async def test_the_usual_other_parameters_do_no_harm(browser: Browser, more: dict[str, str]) -> None:
    given = {"code": await browser.code(), "code_verifier": VERIFIER, "client_id": browser.app.id, **more}
    assert (await browser.http.post("/oauth/token", data=given)).status_code == 200


async def test_no_credential_is_asked_for_and_none_is_looked_at(browser: Browser) -> None:
    given = {"code": await browser.code(), "code_verifier": VERIFIER}
    headers = {"Authorization": "Bearer sk_test_unknown"}
    assert (await browser.http.post("/oauth/token", json=given, headers=headers)).status_code == 200


# What does not fit


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"code": None}, "invalid_request"),
        ({"code": ""}, "invalid_request"),
        ({"code": "ac_" + "A" * 32}, "invalid_grant"),
        ({"code": "é"}, "invalid_grant"),
        ({"code": "x" * 100_000}, "invalid_grant"),
        ({"code_verifier": None}, "invalid_request"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"code_verifier": "wrong"}, "invalid_grant"),
        ({"code_verifier": VERIFIER[:-1]}, "invalid_grant"),
        ({"code_verifier": VERIFIER[:-1] + "A"}, "invalid_grant"),
        ({"code_verifier": VERIFIER + "A"}, "invalid_grant"),
        ({"code_verifier": VERIFIER.lower()}, "invalid_grant"),
        ({"code_verifier": VERIFIER + "\n"}, "invalid_grant"),
        ({"code_verifier": "é" * 43}, "invalid_grant"),
        ({"code_verifier": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "invalid_grant"),
        ({"redirect_uri": LOOPBACK}, "invalid_grant"),
        ({"redirect_uri": REDIRECT + "/"}, "invalid_grant"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({"grant_type": "AUTHORIZATION_CODE"}, "unsupported_grant_type"),
        ({"grant_type": 'é"\\'}, "unsupported_grant_type"),
        ({"grant_type": "refresh_token"}, "invalid_request"),
    ],
)
@pytest.mark.parametrize("kind", ["json", "data"])
async def test_a_mismatched_token_request_is_refused_and_uses_up_nothing(
    browser: Browser, kind: str, changed: dict[str, str | None], error: str
) -> None:
    good = {"code": await browser.code(), "code_verifier": VERIFIER}
    given = {name: value for name, value in {**good, **changed}.items() if value is not None}
    sent: dict[str, Any] = {kind: given}
    assert is_refused(await browser.http.post("/oauth/token", **sent), error)
    assert (await browser.exchange(**good)).status_code == 200


async def test_a_code_is_for_the_app_that_asked(browser: Browser, other: App) -> None:
    good = {"code": await browser.code(), "code_verifier": VERIFIER}
    assert is_refused(await browser.exchange(**good, client_id=other.id), "invalid_grant")
    assert (await browser.exchange(**good, client_id=browser.app.id)).status_code == 200


@pytest.mark.parametrize("client_id", ["app_01kafzq8yrew4r2h6sfvcm0x5t", "x", "é"])
async def test_an_unknown_app_is_an_invalid_client(browser: Browser, client_id: str) -> None:
    answer = await browser.exchange(code=await browser.code(), code_verifier=VERIFIER, client_id=client_id)
    assert is_refused(answer, "invalid_client", 401)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (FORM, b"code=a&code=b&code_verifier=c"),
        (FORM, b"code=%ff"),
        (FORM, b"code=%00&code_verifier=c"),
        (FORM, b""),
        (FORM, b"a=1&" * 200),
        ("application/json", b""),
        ("application/json", b"[]"),
        ("application/json", b'{"code": "a", "code": "b"}'),
        ("application/json", b'{"code": 5, "code_verifier": "c"}'),
        ("application/json", b'{"code": ["a"], "code_verifier": "c"}'),
        ("application/json", b'{"code": null}'),
        ("text/plain", b"code=a&code_verifier=c"),
        ("multipart/form-data; boundary=x", b"--x--"),
    ],
)
async def test_a_body_that_cannot_be_read_is_an_invalid_request(
    stranger_browser: Browser, content_type: str, body: bytes
) -> None:
    answer = await stranger_browser.http.post(
        "/oauth/token", content=body, headers={"Content-Type": content_type}
    )
    assert is_refused(answer, "invalid_request")


async def test_no_log_holds_a_token_however_much_is_logged(
    browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    first = await browser.tokens()
    second = (await browser.refresh(first["refresh_token"])).json()
    assert caplog.records, "nothing was logged, so nothing was seen"
    for token in (first, second):
        assert token["access_token"] not in caplog.text
        assert token["refresh_token"] not in caplog.text


async def test_parameters_belong_in_the_body(browser: Browser) -> None:
    given = {"code": await browser.code(), "code_verifier": VERIFIER}
    assert is_refused(await browser.http.post("/oauth/token", params=given), "invalid_request")


async def test_only_post_is_allowed(browser: Browser) -> None:
    answer = await browser.http.get("/oauth/token")
    assert is_refused(answer, "invalid_request", 405)


# A code works once, and for a minute


async def test_a_code_lives_60_seconds(browser: Browser, clock: ManualClock) -> None:
    first, second = await browser.code(), await browser.code()
    clock.advance(60_000 - 1)
    assert (await browser.exchange(code=first, code_verifier=VERIFIER)).status_code == 200
    clock.advance(1)
    assert is_refused(await browser.exchange(code=second, code_verifier=VERIFIER), "invalid_grant")


@pytest.mark.parametrize(
    "again",
    [
        {},
        {"code_verifier": "stolen-code-without-its-verifier-00000000000"},
        {"redirect_uri": LOOPBACK},
        {"grant_type": "authorization_code"},
    ],
)
async def test_a_second_use_of_a_code_revokes_what_the_first_gave(
    browser: Browser, again: dict[str, str]
) -> None:
    given = {"code": await browser.code(), "code_verifier": VERIFIER}
    token = (await browser.exchange(**given)).json()
    newer = (await browser.refresh(token["refresh_token"])).json()
    assert await works(browser, token)
    assert is_refused(await browser.exchange(**{**given, **again}), "invalid_grant")
    for each in (token, newer):
        used = await browser.use(each["access_token"])
        assert (used.status_code, used.json()["error"]["code"]) == (401, "revoked_credential")
    assert is_refused(await browser.refresh(newer["refresh_token"]), "invalid_grant")


async def test_a_second_use_counts_after_the_codes_minute_too(browser: Browser, clock: ManualClock) -> None:
    given = {"code": await browser.code(), "code_verifier": VERIFIER}
    token = (await browser.exchange(**given)).json()
    clock.advance(20 * DAY)
    newer = (await browser.refresh(token["refresh_token"])).json()
    await browser.exchange(**given)
    assert not await works(browser, newer)


async def test_a_second_use_of_one_code_leaves_other_grants_alone(browser: Browser) -> None:
    given = {"code": await browser.code(), "code_verifier": VERIFIER}
    await browser.exchange(**given)
    other = await browser.tokens()
    await browser.exchange(**given)
    assert await works(browser, other)


async def test_of_20_redemptions_at_once_at_most_one_succeeds(browser: Browser) -> None:
    """And the others, being second uses, revoke what it gave: one of the twenty was not the app."""
    given = {"code": await browser.code(), "code_verifier": VERIFIER}
    answers = await asyncio.gather(*(browser.exchange(**given) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 19
    [won] = [answer.json() for answer in answers if answer.status_code == 200]
    assert not await works(browser, won)
    assert is_refused(await browser.refresh(won["refresh_token"]), "invalid_grant")


# Refresh


@pytest.mark.parametrize("kind", ["json", "data"])
async def test_a_refresh_gives_a_new_pair_of_the_same_scope(browser: Browser, kind: str) -> None:
    token = await browser.tokens()
    sent: dict[str, Any] = {kind: {"grant_type": "refresh_token", "refresh_token": token["refresh_token"]}}
    answer = await browser.http.post("/oauth/token", **sent)
    assert answer.status_code == 200
    newer = answer.json()
    assert newer.keys() == token.keys()
    assert newer["scope"] == token["scope"]
    assert not {newer["access_token"], newer["refresh_token"]} & {*token.values()}
    assert await works(browser, newer)
    assert await works(browser, token)


async def test_a_second_use_of_a_refresh_token_revokes_the_family(browser: Browser) -> None:
    first = await browser.tokens()
    second = (await browser.refresh(first["refresh_token"])).json()
    third = (await browser.refresh(second["refresh_token"])).json()
    assert is_refused(await browser.refresh(first["refresh_token"]), "invalid_grant")
    for each in (first, second, third):
        assert not await works(browser, each)
    assert is_refused(await browser.refresh(third["refresh_token"]), "invalid_grant")


async def test_of_20_refreshes_at_once_at_most_one_succeeds(browser: Browser) -> None:
    token = await browser.tokens()
    answers = await asyncio.gather(*(browser.refresh(token["refresh_token"]) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 19
    [won] = [answer.json() for answer in answers if answer.status_code == 200]
    assert not await works(browser, won)


async def test_a_refresh_token_lives_30_days_and_each_new_one_anew(
    browser: Browser, clock: ManualClock
) -> None:
    token = await browser.tokens()
    for _ in range(3):
        clock.advance(30 * DAY - 1)
        answer = await browser.refresh(token["refresh_token"])
        assert answer.status_code == 200
        token = answer.json()
    clock.advance(30 * DAY)
    assert is_refused(await browser.refresh(token["refresh_token"]), "invalid_grant")


async def test_a_refresh_token_is_for_the_app_it_was_given_to(browser: Browser, other: App) -> None:
    token = (await browser.tokens())["refresh_token"]
    assert is_refused(await browser.refresh(token, client_id=other.id), "invalid_grant")
    assert is_refused(await browser.refresh(token, client_id="app_x"), "invalid_client", 401)
    assert (await browser.refresh(token, client_id=browser.app.id)).status_code == 200


async def test_a_refresh_can_ask_for_less_and_for_all_again_later(browser: Browser) -> None:
    token = await browser.tokens()
    less = (await browser.refresh(token["refresh_token"], scope="read:projects")).json()
    assert less["scope"] == "read:projects"
    refused = await browser.use(less["access_token"], "/v1/accounts", "POST")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_scope")
    assert (await browser.use(less["access_token"], "/v1/accounts")).status_code == 200
    assert (await browser.refresh(less["refresh_token"])).json()["scope"] == SCOPES


@pytest.mark.parametrize("wanted", ["read:users", "read:projects admin:billing", "x", " "])
async def test_a_refresh_cannot_ask_for_more(browser: Browser, wanted: str) -> None:
    token = (await browser.tokens())["refresh_token"]
    assert is_refused(await browser.refresh(token, scope=wanted), "invalid_scope")
    assert (await browser.refresh(token)).status_code == 200


@pytest.mark.parametrize("value", ["", "x", "rt_" + "A" * 32])
async def test_an_unknown_refresh_token_is_refused(browser: Browser, value: str) -> None:
    error = "invalid_grant" if value else "invalid_request"
    assert is_refused(await browser.refresh(value), error)


async def test_each_value_works_in_its_own_place_alone(browser: Browser, make_key: Any) -> None:
    token = await browser.tokens()
    key = await make_key()
    body = {"grant_type": "api_key", "api_key": key}
    of_key = (await browser.http.post("/v1/auth/token", json=body)).json()
    for value in (token["access_token"], of_key["refresh_token"], of_key["access_token"], key):
        assert is_refused(await browser.refresh(value), "invalid_grant")
        assert is_refused(await browser.exchange(code=value, code_verifier=VERIFIER), "invalid_grant")
    for value in (token["refresh_token"], token["access_token"]):
        body = {"grant_type": "refresh_token", "refresh_token": value}
        assert (await browser.http.post("/v1/auth/token", json=body)).status_code == 401
    assert (await browser.use(token["refresh_token"])).status_code == 401
    assert (await browser.refresh(token["refresh_token"])).status_code == 200


async def kept(engine: Engine) -> tuple[int, int]:
    """How many grants and tokens are stored."""
    count = "SELECT (SELECT count(*) FROM grants) AS grants, (SELECT count(*) FROM oauth_tokens) AS tokens"
    row = await engine.read(lambda unit: unit.first(count))
    assert row is not None
    return row["grants"], row["tokens"]


async def test_grants_that_expired_long_ago_are_cleared_away(
    browser: Browser, engine: Engine, clock: ManualClock
) -> None:
    await browser.tokens()
    token = await browser.tokens()
    await browser.code()
    assert await kept(engine) == (3, 4)
    clock.advance(29 * DAY)
    token = (await browser.refresh(token["refresh_token"])).json()
    assert await kept(engine) == (2, 4)  # the code and two access tokens are gone, two tokens have come
    clock.advance(29 * DAY)
    assert (await browser.refresh(token["refresh_token"])).status_code == 200
    assert await kept(engine) == (1, 3)


async def test_one_pair_clears_only_so_many_away_and_no_grant_before_its_tokens(
    browser: Browser, engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a long pause there may be many, and everybody who writes would wait for that commit."""
    monkeypatch.setattr(grants, "FORGOTTEN_AT_ONCE", 3)

    for _ in range(4):
        await browser.tokens()
    token = await browser.tokens()
    assert await kept(engine) == (5, 10)
    clock.advance(29 * DAY)
    refreshed = (await browser.refresh(token["refresh_token"])).json()
    assert await kept(engine) == (5, 9)  # three access tokens are gone, two tokens have come
    refreshed = (await browser.refresh(refreshed["refresh_token"])).json()
    assert await kept(engine) == (5, 9)  # the other two
    clock.advance(15 * DAY)
    refreshed = (await browser.refresh(refreshed["refresh_token"])).json()
    assert (await kept(engine))[1] == 8  # of seven that are too old now, three
    for _ in range(4):
        refreshed = (await browser.refresh(refreshed["refresh_token"])).json()
    assert (await kept(engine))[0] == 1
