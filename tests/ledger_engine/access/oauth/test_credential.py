"""What an app may do with a token, and when that ends.

See docs/decisions.md#credentials, #rate-limits; docs/interface.md#authentication.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx
import pytest
from quart import Quart

from ledger_engine.access import api_keys, projects
from ledger_engine.access.oauth import apps, grants, passwords
from ledger_engine.access.oauth.apps import App, NewApp
from ledger_engine.access.projects import ProjectChanges
from ledger_engine.core.clock import iso
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.app import create_app
from ledger_engine.http.gate import authentication
from ledger_engine.http.gate.gate import AuthRateLimit
from ledger_engine.http.pages.views import Issuer
from ledger_engine.ledger import users
from ledger_engine.ledger.users import User
from ledger_engine.store.engine import Engine, open_engine
from tests.ledger_engine.access.oauth.conftest import BASE, EMAIL, REDIRECT, VERIFIER, Browser, MakeUser
from tests.ledger_engine.conftest import START
from tests.ledger_engine.in_process import client_of
from tests.ledger_engine.manual_clock import ManualClock


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


# Whose it is


async def test_whoami_shows_app_user_role_and_scopes(browser: Browser, planner: App, ada: User) -> None:
    token = (await browser.tokens())["access_token"]
    shown = (await browser.use(token)).json()
    assert shown == {
        "id": planner.id,
        "object": "credential",
        "kind": "oauth_token",
        "user": ada.id,
        "project": planner.project,
        "plan": "enterprise",
        "mode": "test",
        "role": "admin",
        "scopes": ["read:projects", "write:projects"],
        "rate_limit": 1_000_000,
        "burst": 1_000_000,
        "stored_objects_max": None,
        "webhook_endpoints_max": None,
        "created": iso(START),
        "expires_at": iso(START + 3_600_000),
        "livemode": False,
    }


async def test_a_token_acts_in_the_apps_project_and_mode(
    browser: Browser, engine: Engine, tenant: Tenant, make_user: MakeUser, sign_in_as: Any
) -> None:
    live = Tenant(tenant.project, livemode=True)
    app = await engine.write(partial(apps.create, tenant=live, new=NewApp("Live", [REDIRECT])))
    browser.be(await sign_in_as(await make_user(by=live)))
    token = (await browser.tokens(client_id=app.id))["access_token"]
    made = await browser.http.post(
        "/v1/accounts",
        json={"name": "Till", "currency": "EUR"},
        headers={"Authorization": f"Bearer {token}"},
    )
    assert (made.status_code, made.json()["livemode"]) == (201, True)


# What it may; test_access tries each operation with it


async def test_an_app_may_create_change_and_archive_projects_and_is_given_no_key(
    browser: Browser, make_user: MakeUser, sign_in_as: Any, api: httpx.AsyncClient, engine: Engine
) -> None:
    """What write:projects grants (docs/interface.md#scopes); a key would outlast the grant."""
    browser.be(await sign_in_as(await make_user("owner@example.com", "owner")))
    token = (await browser.tokens(scope="read:projects write:projects"))["access_token"]
    headers = {"Authorization": f"Bearer {token}"}

    async def send(method: str, path: str, **body: str) -> dict[str, Any]:
        answer = await browser.http.request(method, path, json=body or None, headers=headers)
        assert answer.is_success, answer.text
        answered: dict[str, Any] = answer.json()
        return answered

    made = await send("POST", "/v1/projects", name="Branch")
    assert (made["name"], made["api_key"]) == ("Branch", None)
    assert await engine.read(partial(api_keys.every, project=made["id"])) == []
    assert (await send("PATCH", f"/v1/projects/{made['id']}", name="Kiosk"))["name"] == "Kiosk"
    assert (await send("DELETE", f"/v1/projects/{made['id']}"))["archived_at"] is not None
    listed = (await send("GET", "/v1/projects"))["data"]
    assert [each["id"] for each in listed] == [made["id"], browser.app.project]
    poor = (await browser.tokens(scope="read:projects"))["access_token"]
    refused = await browser.http.post(
        "/v1/projects", json={"name": "Branch"}, headers={"Authorization": f"Bearer {poor}"}
    )
    assert code_of(refused) == (403, "missing_scope")


# When it ends


@pytest.fixture
def ends(
    engine: Engine, tenant: Tenant, write: Any, ada: User, planner: App, browser: Browser
) -> dict[str, Callable[[dict[str, Any]], Awaitable[Any]]]:
    return {
        "the user is deactivated": lambda _: write(users.deactivate, ada.id),
        "the user is deactivated over HTTP": lambda token: browser.use(
            token["access_token"], f"/api/users/{ada.id}", "DELETE"
        ),
        "the user gets a new password": lambda _: write(
            passwords.set_password, EMAIL, passwords.hash_password("another password")
        ),
        "the app is deleted": lambda _: engine.write(partial(apps.delete, id=planner.id)),
        "the project is archived": lambda _: write(projects.archive, tenant.project),
        "the app gives the access token back": lambda token: browser.http.post(
            "/oauth/revoke", data={"token": token["access_token"]}
        ),
        "the app gives the refresh token back": lambda token: browser.http.post(
            "/oauth/revoke", json={"token": token["refresh_token"], "token_type_hint": "refresh_token"}
        ),
    }


ENDS = [
    "the user is deactivated",
    "the user is deactivated over HTTP",
    "the user gets a new password",
    "the app is deleted",
    "the project is archived",
    "the app gives the access token back",
    "the app gives the refresh token back",
]


@pytest.mark.parametrize("end", ENDS)
async def test_a_token_is_401_with_the_next_request_when(browser: Browser, ends: Any, end: str) -> None:
    token = await browser.tokens()
    assert (await browser.use(token["access_token"])).status_code == 200
    await ends[end](token)
    assert code_of(await browser.use(token["access_token"])) == (401, "revoked_credential")
    refused = await browser.refresh(token["refresh_token"])
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize("end", ENDS[:5])
async def test_a_code_that_waits_is_worth_nothing_when(browser: Browser, ends: Any, end: str) -> None:
    token, code = await browser.tokens(), await browser.code()
    await ends[end](token)
    refused = await browser.exchange(code=code, code_verifier=VERIFIER)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")


async def test_a_restored_user_does_not_bring_back_old_grants(
    browser: Browser, ada: User, write: Any
) -> None:
    token = await browser.tokens()
    await write(users.deactivate, ada.id)
    await write(users.restore, ada.id)
    assert code_of(await browser.use(token["access_token"])) == (401, "revoked_credential")


async def test_one_users_end_is_nobody_elses(
    browser: Browser, ada: User, make_user: MakeUser, sign_in_as: Any, write: Any
) -> None:
    of_ada = await browser.tokens()
    browser.be(await sign_in_as(await make_user("bo@example.com")))
    of_bo = await browser.tokens()
    await write(users.deactivate, ada.id)
    assert (await browser.use(of_ada["access_token"])).status_code == 401
    assert (await browser.use(of_bo["access_token"])).status_code == 200


async def test_a_grant_ended_by_another_process_is_refused_within_a_second(
    browser: Browser, location: Location, clock: ManualClock, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 0.0
    monkeypatch.setattr(authentication, "monotonic", lambda: passed)
    token = await browser.tokens()
    assert (await browser.use(token["access_token"])).status_code == 200
    beside = open_engine(location, clock=clock)
    await beside.write(partial(grants.revoke_all_of, user=ada.id))
    await beside.close()
    passed = 0.999
    assert code_of(await browser.use(token["access_token"])) == (401, "revoked_credential")


# Giving back (RFC 7009)


@pytest.mark.parametrize("value", ["x", "at_" + "A" * 32, "rt_" + "A" * 32, "é"])
async def test_giving_back_what_is_no_token_is_200(stranger_browser: Browser, value: str) -> None:
    answer = await stranger_browser.http.post("/oauth/revoke", data={"token": value})
    assert (answer.status_code, answer.json()) == (200, {})


async def test_giving_back_twice_is_200(browser: Browser) -> None:
    token = (await browser.tokens())["refresh_token"]
    for _ in range(2):
        assert (await browser.http.post("/oauth/revoke", data={"token": token})).status_code == 200


async def test_a_token_is_given_back_by_its_own_app(browser: Browser, engine: Engine, tenant: Tenant) -> None:
    other = await engine.write(partial(apps.create, tenant=tenant, new=NewApp("Other", [REDIRECT])))
    token = await browser.tokens()
    for client_id, status, error in ((other.id, 400, "invalid_grant"), ("app_x", 401, "invalid_client")):
        given = {"token": token["refresh_token"], "client_id": client_id}
        answer = await browser.http.post("/oauth/revoke", data=given)
        assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert (await browser.use(token["access_token"])).status_code == 200


async def test_the_token_is_required(stranger_browser: Browser) -> None:
    answer = await stranger_browser.http.post("/oauth/revoke", data={})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_a_token_of_an_api_key_is_not_given_back_here(browser: Browser, make_key: Any) -> None:
    body = {"grant_type": "api_key", "api_key": await make_key()}
    token = (await browser.http.post("/v1/auth/token", json=body)).json()["access_token"]
    assert (await browser.http.post("/oauth/revoke", data={"token": token})).status_code == 200
    assert (await browser.use(token)).status_code == 200


# What it is counted on


@pytest.fixture
def counting(engine: Engine) -> Quart:
    """Return an application whose clock stands still."""
    return create_app(
        engine, issuer=Issuer(BASE), auth_rate_limit=AuthRateLimit(1000, 1000), wall_clock=lambda: 0.0
    )


async def test_tokens_are_counted_on_app_and_user(
    browser: Browser,
    counting: Quart,
    engine: Engine,
    tenant: Tenant,
    make_user: MakeUser,
    sign_in_as: Any,
) -> None:
    await engine.write(
        partial(projects.update, id=tenant.project, changes=ProjectChanges(rate_limit=100, burst=100))
    )
    first, second = await browser.tokens(), await browser.tokens()
    other = await engine.write(partial(apps.create, tenant=tenant, new=NewApp("Other", [REDIRECT])))
    of_other = await browser.tokens(client_id=other.id)
    browser.be(await sign_in_as(await make_user("bo@example.com")))
    of_bo = await browser.tokens()
    async with client_of(counting, url=BASE) as client:
        left = []
        for token in (first, second, of_other, of_bo, first):
            headers = {"Authorization": f"Bearer {token['access_token']}"}
            answer = await client.get("/v1/whoami", headers=headers)
            left.append(int(answer.headers["X-RateLimit-Remaining"]))
    assert left == [99, 98, 99, 99, 97]


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/sign-in"])
async def test_the_stricter_limit_is_per_address(counting: Quart, engine: Engine, path: str) -> None:
    app = create_app(engine, issuer=Issuer(BASE), auth_rate_limit=AuthRateLimit(3, 2), wall_clock=lambda: 0.0)
    async with client_of(app, url=BASE) as client:
        answers = [await client.post(path) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [400, 400, 429]
    assert answers[0].headers["X-RateLimit-Limit"] == "3"
