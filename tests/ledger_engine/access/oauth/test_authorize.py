"""What an app may ask for at /oauth/authorize.

See docs/interface.md#authorize-parameters; docs/decisions.md#oauth.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from ledger_engine.access import api_keys, projects
from ledger_engine.access.oauth import apps
from ledger_engine.access.oauth.apps import App, NewApp
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.app import create_app
from ledger_engine.http.pages.views import Issuer
from ledger_engine.store.engine import Engine
from tests.ledger_engine.access.oauth.conftest import (
    BASE,
    CHALLENGE,
    LOOPBACK,
    REDIRECT,
    STATE,
    Browser,
    MakeUser,
    redirect_query,
)
from tests.ledger_engine.in_process import client_of


def is_page(answer: httpx.Response, status: int) -> bool:
    return (
        answer.status_code == status
        and answer.headers["Content-Type"] == "text/html; charset=utf-8"
        and "Location" not in answer.headers
    )


# The literal contract


async def test_the_five_parameters_are_enough(stranger_browser: Browser) -> None:
    assert list(stranger_browser.params) == [
        "client_id",
        "redirect_uri",
        "scope",
        "state",
        "code_challenge",
    ]
    page = await stranger_browser.authorize()
    assert is_page(page, 200)
    assert "Café Planner" in page.text


@pytest.mark.parametrize("redirect_uri", [REDIRECT, LOOPBACK, "http://127.0.0.1:49152/callback"])
async def test_the_user_is_sent_to_the_address_that_was_asked_for(
    browser: Browser, redirect_uri: str
) -> None:
    answer = await browser.decide(redirect_uri=redirect_uri)
    assert answer.headers["Location"].startswith(redirect_uri + "?code=")


async def test_a_query_of_the_address_is_kept(browser: Browser, engine: Engine, tenant: Tenant) -> None:
    uri = "https://app.example/callback?tenant=1&x="
    app = await engine.write(partial(apps.create, tenant=tenant, new=NewApp("Planner", [uri])))
    answer = await browser.decide(client_id=app.id, redirect_uri=uri)
    assert answer.headers["Location"].startswith(uri + "&code=")
    assert redirect_query(answer).keys() == {"tenant", "x", "code", "state", "iss"}


@pytest.mark.parametrize(
    "more",
    [
        {"response_type": "code"},
        {"code_challenge_method": "S256"},
        {"response_type": "", "code_challenge_method": ""},
        {"prompt": "consent", "nonce": "n", "unknown": "x"},
        {"scope": "write:projects  read:projects read:projects"},
    ],
)
async def test_the_usual_other_parameters_do_no_harm(browser: Browser, more: dict[str, str]) -> None:
    assert "code" in redirect_query(await browser.decide(**more))


# What only the user is redirect_query


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": None},
        {"client_id": ""},
        {"client_id": "app_01kafzq8yrew4r2h6sfvcm0x5t"},
        {"client_id": "x" * 3000},
        {"redirect_uri": None},
        {"redirect_uri": ""},
        {"redirect_uri": REDIRECT + "/"},
        {"redirect_uri": REDIRECT.upper()},
        {"redirect_uri": REDIRECT.replace("app.", "www.app.")},
        {"redirect_uri": REDIRECT.replace("app.", "ada@app.")},
        {"redirect_uri": REDIRECT + "#x"},
        {"redirect_uri": "https://evil.example/"},
        {"redirect_uri": "//evil.example/"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": "https://evil.example/", "response_type": "token"},
        {"redirect_uri": REDIRECT + "\r\nSet-Cookie: x=y"},
        {"redirect_uri": 'é"\\\x00'},
        {"client_id": 'é"\\\x00'},
    ],
)
async def test_an_unknown_app_or_address_is_an_error_page_and_never_a_redirect(
    browser: Browser, changed: dict[str, str | None]
) -> None:
    assert is_page(await browser.authorize(**changed), 400)


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
async def test_a_repeated_app_or_redirect_address_is_an_error_page(browser: Browser, name: str) -> None:
    params = [*browser.params.items(), (name, browser.params[name])]
    assert is_page(await browser.http.get(f"/oauth/authorize?{urlencode(params)}"), 400)


async def test_a_deleted_app_is_unknown(browser: Browser, engine: Engine) -> None:
    await engine.write(partial(apps.delete, id=browser.app.id))
    assert is_page(await browser.authorize(), 400)


async def test_an_app_of_an_archived_project_is_unknown(
    browser: Browser, engine: Engine, tenant: Tenant
) -> None:
    await engine.write(partial(projects.archive, tenant=tenant, id=tenant.project))
    assert is_page(await browser.authorize(), 400)


@pytest.mark.parametrize("client_id", ["<script>alert(1)</script>", '"><img src=x>', "\u202e\x1b[31m"])
async def test_a_value_repeated_on_the_page_is_text(browser: Browser, client_id: str) -> None:
    page = await browser.authorize(client_id=client_id)
    assert is_page(page, 400)
    assert "<script" not in page.text
    assert "<img" not in page.text
    assert "\x1b" not in page.text


async def test_bytes_that_are_no_text_are_a_page(browser: Browser) -> None:
    assert is_page(await browser.http.get("/oauth/authorize?client_id=%ff"), 400)


# What the app is redirect_query


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"state": None}, "invalid_request"),
        ({"state": ""}, "invalid_request"),
        ({"state": "a\nb"}, "invalid_request"),
        ({"state": "é"}, "invalid_request"),
        ({"scope": None}, "invalid_request"),
        ({"scope": ""}, "invalid_request"),
        ({"scope": " "}, "invalid_scope"),
        ({"scope": "read:everything"}, "invalid_scope"),
        ({"scope": "read:projects openid"}, "invalid_scope"),
        ({"scope": "READ:PROJECTS"}, "invalid_scope"),
        ({"scope": "read:projects,write:projects"}, "invalid_scope"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge": CHALLENGE + "="}, "invalid_request"),
        ({"code_challenge": CHALLENGE + "\n"}, "invalid_request"),
        ({"code_challenge": CHALLENGE.replace("-", "+")}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "s256"}, "invalid_request"),
        ({"code_challenge_method": "S512"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code token"}, "unsupported_response_type"),
        ({"response_type": "id_token"}, "unsupported_response_type"),
        ({"response_type": "Code"}, "unsupported_response_type"),
        ({"response_type": " code"}, "unsupported_response_type"),
        ({"response_type": 'é"\\\x00'}, "unsupported_response_type"),
        ({"code_challenge_method": 'é"\\\x00'}, "invalid_request"),
        ({"scope": 'é"\\\x00'}, "invalid_scope"),
    ],
)
@pytest.mark.parametrize("signed_in", [True, False])
async def test_any_other_fault_is_returned_to_the_app(
    browser: Browser,
    stranger_browser: Browser,
    signed_in: bool,
    changed: dict[str, str | None],
    error: str,
) -> None:
    answer = await (browser if signed_in else stranger_browser).authorize(**changed)
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith(REDIRECT + "?")
    back = redirect_query(answer)
    assert (back["error"], back["iss"]) == (error, BASE)
    assert back["error_description"]
    assert "code" not in back
    assert back.get("state") == (None if "state" in changed else STATE)


@pytest.mark.parametrize("name", ["scope", "state", "code_challenge", "unknown"])
async def test_a_parameter_given_twice_is_refused(browser: Browser, name: str) -> None:
    params = [*browser.params.items(), (name, "x"), (name, "")]
    answer = await browser.http.get(f"/oauth/authorize?{urlencode(params)}")
    assert (answer.status_code, redirect_query(answer)["error"]) == (302, "invalid_request")


@pytest.mark.parametrize(("role", "given"), [("member", False), ("admin", False), ("owner", True)])
async def test_billing_takes_an_owner(
    browser: Browser, make_user: MakeUser, sign_in_as: Any, role: str, given: bool
) -> None:
    """A scope beyond the user's role is redirect_query to the app as soon as it is known who the user is."""
    browser.be(await sign_in_as(await make_user("bo@example.com", role)))
    answer = await browser.authorize(scope="read:projects admin:billing")
    if given:
        assert is_page(answer, 200)
        return
    back = redirect_query(answer)
    assert (answer.status_code, back["error"], back["state"]) == (302, "invalid_scope", STATE)


# What else


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_only_get_is_allowed(browser: Browser, method: str) -> None:
    answer = await browser.http.request(method, "/oauth/authorize")
    assert answer.status_code == 405


@pytest.mark.parametrize("issuer", ["https://ledger.example", "https://ledger.example/"])
async def test_an_issuer_that_was_set_is_used_whatever_the_host(
    engine: Engine, planner: App, issuer: str
) -> None:
    app = create_app(engine, issuer=Issuer(issuer), wall_clock=lambda: 0.0)
    async with client_of(app, url=BASE) as client:
        browser = Browser(client, planner)
        for host in ("evil.example", "127.0.0.1:8700"):
            answer = await client.get(
                "/oauth/authorize", params={**browser.params, "scope": "x"}, headers={"Host": host}
            )
            assert redirect_query(answer)["iss"] == "https://ledger.example"
            answer = await client.get("/.well-known/oauth-authorization-server", headers={"Host": host})
            assert answer.json()["issuer"] == "https://ledger.example"
            assert answer.json()["token_endpoint"] == "https://ledger.example/oauth/token"


@pytest.mark.parametrize(
    ("host", "good"),
    [
        ("localhost:8700", True),
        ("LOCALHOST", True),
        ("[::1]:8700", True),
        ("127.0.0.1:1", True),
        ("192.0.2.7:8700", True),
        ("box.lan:8700", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("box.lan.evil.example", False),
        ("", False),
    ],
)
async def test_without_one_it_is_the_address_of_the_request_unless_that_is_a_foreign_name(
    engine: Engine, planner: App, host: str, good: bool
) -> None:
    app = create_app(engine, issuer=Issuer(host="box.lan"), wall_clock=lambda: 0.0)
    async with client_of(app, url=BASE) as client:
        params = Browser(client, planner).params
        answer = await client.get("/oauth/authorize", params={**params, "scope": "x"}, headers={"Host": host})
        metadata = await client.get("/.well-known/oauth-authorization-server", headers={"Host": host})
    if good:
        assert redirect_query(answer)["iss"] == metadata.json()["issuer"] == f"http://{host}"
    else:
        assert is_page(answer, 400)
        assert (metadata.status_code, metadata.json()["error"]["code"]) == (400, "invalid_value")
        assert "--issuer" in answer.text


async def test_a_credential_is_not_looked_at(browser: Browser, make_key: Any) -> None:
    headers = {"Authorization": f"Bearer {api_keys.new_value(False)}"}
    assert is_page(await browser.http.get("/oauth/authorize", params=browser.params, headers=headers), 200)


async def test_too_many_requests_get_the_same_429_as_everywhere(engine: Engine) -> None:
    """docs/decisions.md#error-param-null"""
    async with client_of(create_app(engine, wall_clock=lambda: 0.0), url=BASE) as client:
        for _ in range(6):
            answer = await client.post("/oauth/sign-in", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (429, "application/json")
    assert (answer.headers["Retry-After"], answer.headers["X-RateLimit-Remaining"]) == ("1", "0")
    assert answer.json() == {
        "error": "rate_limited",
        "message": "Too many requests. Try again in 1 second.",
    }
