"""The question to the user, and that nobody else can answer it (docs/decisions.md#oauth)."""

from __future__ import annotations

import asyncio
import hmac
from functools import partial
from typing import Any

import pytest
from quart import Quart

from ledger_engine.access import projects
from ledger_engine.access.api_keys import new_secret
from ledger_engine.access.oauth import apps
from ledger_engine.access.oauth.apps import App, NewApp
from ledger_engine.access.oauth.authorization import AuthorizationRequest, RefusedToApp, decide
from ledger_engine.access.projects import NewProject
from ledger_engine.core.records import dumps
from ledger_engine.core.tenant import SCOPES, Tenant
from ledger_engine.ledger.users import User
from ledger_engine.store.engine import Engine
from tests.ledger_engine.access.oauth.conftest import (
    BASE,
    EMAIL,
    PASSWORD,
    REDIRECT,
    STATE,
    VERIFIER,
    Browser,
    MakeUser,
    hidden,
    redirect_query,
)
from tests.ledger_engine.in_process import client_of
from tests.ledger_engine.manual_clock import ManualClock


async def grants_kept(engine: Engine) -> int:
    return len(await engine.read(lambda unit: unit.execute("SELECT id FROM grants")))


async def test_the_page_names_the_app_its_scopes_the_user_and_where_they_go(browser: Browser) -> None:
    page = (await browser.authorize()).text
    for told_there in ("Café Planner", "Roastery", "test mode", EMAIL, "https://app.example<"):
        assert told_there in page
    assert "View the books" in page
    assert "Make changes" in page
    assert "View the users" not in page


async def test_each_scope_is_described_in_words(
    browser: Browser, make_user: MakeUser, sign_in_as: Any
) -> None:
    browser.be(await sign_in_as(await make_user("owner@example.com", "owner")))
    assert (await browser.authorize(scope=" ".join(SCOPES))).text.count("<li ") == len(SCOPES)


async def test_consent_gives_a_code_and_a_refusal_is_returned_to_the_app(
    browser: Browser, engine: Engine
) -> None:
    assert "code" in redirect_query(await browser.decide("allow"))
    answer = await browser.decide("deny")
    back = redirect_query(answer)
    assert answer.status_code == 303
    assert answer.headers["Location"].startswith(REDIRECT + "?")
    assert (back["error"], back["state"], back["iss"]) == ("access_denied", STATE, BASE)
    assert "code" not in back
    assert await grants_kept(engine) == 1


@pytest.mark.parametrize("decision", ["", "yes", "ALLOW", "allow "])
async def test_anything_but_yes_is_no(browser: Browser, engine: Engine, decision: str) -> None:
    assert redirect_query(await browser.decide(decision))["error"] == "access_denied"
    assert await grants_kept(engine) == 0


async def test_one_form_gives_one_code_however_often_it_is_sent(browser: Browser, engine: Engine) -> None:
    form = hidden(await browser.authorize())
    answers = await asyncio.gather(*(browser.post("consent", form, decision="allow") for _ in range(20)))
    codes = {redirect_query(answer)["code"] for answer in answers}
    assert len(codes) == await grants_kept(engine) == 1
    assert (await browser.exchange(code=codes.pop(), code_verifier=VERIFIER)).status_code == 200


@pytest.mark.parametrize("since", ["redeemed", "expired", "revoked"])
async def test_a_form_whose_code_is_over_gives_none_again(
    browser: Browser, engine: Engine, clock: ManualClock, ada: User, since: str
) -> None:
    form = hidden(await browser.authorize())
    code = redirect_query(await browser.post("consent", form, decision="allow"))["code"]
    if since == "redeemed":
        tokens = (await browser.exchange(code=code, code_verifier=VERIFIER)).json()
    elif since == "expired":
        clock.advance(60_000)
    else:
        revoke = "UPDATE grants SET revoked_at = created"
        await engine.write(lambda unit: unit.execute(revoke))
    again = await browser.post("consent", form, decision="allow")
    assert (again.status_code, "Location" in again.headers) == (409, False)
    assert "Try again" in again.text
    assert await grants_kept(engine) == 1
    if since == "redeemed":
        assert (await browser.use(tokens["access_token"])).status_code == 200
    assert redirect_query(await browser.decide())["code"] != code


async def test_the_user_is_asked_each_time(browser: Browser) -> None:
    await browser.code()
    assert 'value="allow"' in (await browser.authorize()).text


# Forgery


@pytest.mark.parametrize("token", ["", "0" * 64, None])
async def test_a_consent_that_was_not_asked_for_here_is_refused(
    browser: Browser, engine: Engine, token: str | None
) -> None:
    form = dict(browser.params) if token is None else {**browser.params, "token": token}
    answer = await browser.post("consent", form, decision="allow")
    assert (answer.status_code, "Location" in answer.headers) == (403, False)
    assert await grants_kept(engine) == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"scope": "read:users"},
        {"state": "another"},
        {"redirect_uri": "http://127.0.0.1/callback"},
        {"code_challenge": "A" * 43},
    ],
)
async def test_a_consent_is_to_what_was_shown_and_to_nothing_else(
    browser: Browser, engine: Engine, changed: dict[str, str]
) -> None:
    form = {**hidden(await browser.authorize()), **changed}
    assert (await browser.post("consent", form, decision="allow")).status_code == 403
    assert await grants_kept(engine) == 0


async def test_a_consent_for_one_app_is_not_valid_for_another(
    browser: Browser, engine: Engine, tenant: Tenant
) -> None:
    other = await engine.write(partial(apps.create, tenant=tenant, new=NewApp("Other", [REDIRECT])))
    form = {**hidden(await browser.authorize()), "client_id": other.id}
    assert (await browser.post("consent", form, decision="allow")).status_code == 403
    assert await grants_kept(engine) == 0


async def test_an_attackers_own_page_is_of_no_use_in_the_victims_browser(
    browser: Browser, make_user: MakeUser, sign_in_as: Any, app: Quart, engine: Engine
) -> None:
    async with client_of(app, url=BASE) as client:
        attacker = Browser(client, browser.app)
        attacker.be(await sign_in_as(await make_user("eve@example.com")))
        form = hidden(await attacker.authorize())
    assert (await browser.post("consent", form, decision="allow")).status_code == 403
    assert await grants_kept(engine) == 0


async def test_the_token_of_the_sign_in_page_is_not_valid_for_consent(
    stranger_browser: Browser, ada: User, sign_in_as: Any, engine: Engine
) -> None:
    form = hidden(await stranger_browser.authorize())
    cookie = stranger_browser.cookie
    assert (await stranger_browser.post("consent", form, decision="allow")).status_code == 403
    await stranger_browser.post("sign-in", form, email=EMAIL, password=PASSWORD)
    assert stranger_browser.cookie != cookie
    assert (await stranger_browser.post("consent", form, decision="allow")).status_code == 403
    assert await grants_kept(engine) == 0


async def test_a_cookie_nobody_is_signed_in_with_leads_to_the_sign_in(
    stranger_browser: Browser, engine: Engine
) -> None:
    """Whoever makes up a cookie can make its token as well, and gains nothing."""
    cookie = new_secret("si")
    stranger_browser.be(cookie)
    form = hidden(await stranger_browser.authorize())
    del form["token"]
    signed = hmac.new(cookie.encode(), dumps(["consent", "nonce", form]).encode(), "sha256").hexdigest()
    form["token"] = f"nonce.{signed}"
    answer = await stranger_browser.post("consent", form, decision="allow")
    assert (answer.status_code, answer.headers["Location"][:17]) == (303, "/oauth/authorize?")
    assert await grants_kept(engine) == 0


# Whose users an app may ask


@pytest.mark.parametrize("where", ["the other mode", "another project"])
async def test_an_app_asks_the_users_of_its_own_project_and_mode_alone(
    browser: Browser, engine: Engine, tenant: Tenant, where: str
) -> None:
    other = Tenant(tenant.project, livemode=True)
    if where == "another project":
        made = await engine.write(partial(projects.create, new=NewProject("Bakery")))
        other = Tenant(made.id, livemode=False)
    theirs = await engine.write(partial(apps.create, tenant=other, new=NewApp("Theirs", [REDIRECT])))
    page = await browser.authorize(client_id=theirs.id)
    assert "Sign in" in page.text
    assert EMAIL not in page.text
    refused = await browser.post("sign-in", hidden(page), email=EMAIL, password=PASSWORD)
    assert refused.status_code == 401


@pytest.mark.parametrize("who", ["nobody", "a user of the other mode"])
async def test_nobody_else_can_allow_it(
    engine: Engine, planner: App, tenant: Tenant, make_user: MakeUser, sign_in_as: Any, who: str
) -> None:
    cookie = new_secret("si")
    if who != "nobody":
        cookie = await sign_in_as(await make_user(by=Tenant(tenant.project, livemode=True)))
    params = AuthorizationRequest(planner, REDIRECT, ["read:projects"], STATE, "A" * 43)
    with pytest.raises(RefusedToApp) as told_to_app:
        await engine.write(partial(decide, authorization=params, sign_in=cookie, code="ac_1"))
    assert told_to_app.value.error == "access_denied"
    assert await grants_kept(engine) == 0


async def test_a_role_that_was_lowered_while_the_page_was_open_gives_no_more(
    browser: Browser, make_user: MakeUser, sign_in_as: Any, engine: Engine
) -> None:
    owner = await make_user("owner@example.com", "owner")
    browser.be(await sign_in_as(owner))
    form = hidden(await browser.authorize(scope="admin:billing"))
    lower = "UPDATE users SET role = 'admin' WHERE id = :id"
    await engine.write(lambda unit: unit.execute(lower, {"id": owner.id}))
    assert redirect_query(await browser.post("consent", form, decision="allow"))["error"] == "invalid_scope"
    assert await grants_kept(engine) == 0


async def test_an_app_that_was_deleted_while_the_page_was_open_gets_nothing(
    browser: Browser, engine: Engine, planner: App
) -> None:
    form = hidden(await browser.authorize())
    await engine.write(partial(apps.delete, id=planner.id))
    answer = await browser.post("consent", form, decision="allow")
    assert (answer.status_code, "Location" in answer.headers) == (400, False)
    assert await grants_kept(engine) == 0


async def test_a_name_is_shown_as_text(browser: Browser, engine: Engine, tenant: Tenant) -> None:
    new = NewApp("<script>alert(1)</script>", [REDIRECT])
    app = await engine.write(partial(apps.create, tenant=tenant, new=new))
    page = await browser.authorize(client_id=app.id)
    assert "&lt;script&gt;" in page.text
    assert "<script" not in page.text
