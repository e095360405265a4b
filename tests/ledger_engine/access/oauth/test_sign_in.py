"""Signing in: who is let in, what others learn, and what a browser keeps (docs/decisions.md#oauth)."""

from __future__ import annotations

import asyncio
import re
import threading
from functools import partial
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher

from ledger_engine.access.api_keys import new_secret
from ledger_engine.access.oauth import passwords, sign_ins
from ledger_engine.access.oauth.apps import App
from ledger_engine.access.oauth.passwords import Login
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.pages.views import CHECKED_AT_ONCE, WAITING_MAX, PasswordChecks, TooManyChecks
from ledger_engine.ledger import users
from ledger_engine.ledger.users import User
from ledger_engine.store.engine import Engine
from tests.ledger_engine.access.oauth.conftest import EMAIL, PASSWORD, Browser, MakeUser, hidden
from tests.ledger_engine.in_process import client_of
from tests.ledger_engine.manual_clock import ManualClock


def is_refused(answer: httpx.Response) -> bool:
    return answer.status_code == 401 and "email or the password is wrong" in answer.text


async def sign_ins_kept(engine: Engine) -> int:
    return len(await engine.read(lambda unit: unit.execute("SELECT hash FROM sign_ins")))


async def test_the_right_password_leads_to_the_question(stranger_browser: Browser, ada: User) -> None:
    answer = await stranger_browser.sign_in()
    assert answer.status_code == 303
    assert answer.headers["Location"].startswith("/oauth/authorize?")
    page = await stranger_browser.http.get(answer.headers["Location"])
    assert page.status_code == 200
    assert EMAIL in page.text
    assert 'value="allow"' in page.text


@pytest.mark.parametrize("email", ["ADA@example.com", " ada@example.com "])
async def test_an_address_is_known_in_any_case(stranger_browser: Browser, ada: User, email: str) -> None:
    assert (await stranger_browser.sign_in(email)).status_code == 303


async def test_a_password_is_known_however_it_is_encoded(
    stranger_browser: Browser, ada: User, write: Any
) -> None:
    await write(passwords.set_password, EMAIL, passwords.hash_password("Cafe\u0301 im \ufb01nsteren"))
    assert (await stranger_browser.sign_in(password="Caf\u00e9 im finsteren")).status_code == 303


# What is refused, and what that tells


@pytest.mark.parametrize(
    ("email", "password"),
    [
        (EMAIL, "wrong horse battery"),
        (EMAIL, ""),
        (EMAIL, PASSWORD + " "),
        (EMAIL, PASSWORD.upper()),
        (EMAIL, "x" * 100_000),
        ("bo@example.com", PASSWORD),
        ("", PASSWORD),
        ("", ""),
        ("ada@example.com' OR '1'='1", PASSWORD),
        ("%", PASSWORD),
    ],
)
async def test_any_other_pair_is_refused(
    stranger_browser: Browser, ada: User, engine: Engine, email: str, password: str
) -> None:
    assert is_refused(await stranger_browser.sign_in(email, password))
    assert await sign_ins_kept(engine) == 0


async def test_an_unknown_user_and_a_wrong_password_are_answered_alike(
    stranger_browser: Browser, ada: User, make_user: MakeUser, write: Any
) -> None:
    """Also a user who has no password, one who is deactivated, and one of the other mode."""
    await write(users.create, users.NewUser("Bo", "bo@example.com"))
    gone = await make_user("gone@example.com")
    await write(users.deactivate, gone.id)
    await make_user("live@example.com", by=Tenant(stranger_browser.app.project, livemode=True))
    answers = {}
    for email in (EMAIL, "nobody@example.com", "bo@example.com", "gone@example.com", "live@example.com"):
        answer = await stranger_browser.sign_in(email, "wrong" if email == EMAIL else PASSWORD)
        headers = {
            name: value
            for name, value in answer.headers.items()
            if name not in ("request-id", "x-ratelimit-reset", "content-length")
        }
        answers[email] = answer.status_code, headers, answer.text.replace(email, "…")
    assert len({str(answer) for answer in answers.values()}) == 1
    assert answers[EMAIL][0] == 401


async def test_a_password_is_compared_whoever_it_is_said_to_be_of(
    stranger_browser: Browser, ada: User, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As much work for a user that is none: the same function with the same costs, once."""
    await write(users.create, users.NewUser("Bo", "bo@example.com"))
    seen: list[str] = []
    verify = PasswordHasher.verify

    def counted(hasher: PasswordHasher, hashed: str, password: str) -> bool:
        seen.append(hashed)
        return bool(verify(hasher, hashed, password))

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    for email in (EMAIL, "nobody@example.com", "bo@example.com", ""):
        assert is_refused(await stranger_browser.sign_in(email, "wrong"))
    assert len(seen) == 4
    costs, lengths = {tuple(hashed.split("$")[:4]) for hashed in seen}, {len(hashed) for hashed in seen}
    assert (len(costs), len(lengths)) == (1, 1)


async def test_a_typed_address_comes_back_as_text_and_the_password_does_not(
    stranger_browser: Browser, ada: User
) -> None:
    answer = await stranger_browser.sign_in('"><script>alert(1)</script>', "hunter2-hunter2")
    assert is_refused(answer)
    assert "<script" not in answer.text
    assert "hunter2" not in answer.text


async def test_a_password_that_was_changed_meanwhile_signs_nobody_in(
    engine: Engine, ada: User, planner: App, write: Any
) -> None:
    login = await engine.read(partial(passwords.find, project=planner.project, livemode=False, email=EMAIL))
    assert login is not None
    await write(passwords.set_password, EMAIL, passwords.hash_password("another password"))
    began = partial(
        sign_ins.begin,
        user=login.user,
        password_hash=login.password_hash,
        value=new_secret("si"),
        replaces=None,
    )
    assert await engine.write(began) is False
    assert await sign_ins_kept(engine) == 0


# The browser


async def test_the_cookie_is_another_one_after_signing_in(stranger_browser: Browser, ada: User) -> None:
    await stranger_browser.authorize()
    before = stranger_browser.cookie
    assert (await stranger_browser.sign_in()).status_code == 303
    assert stranger_browser.cookie not in (None, before)


async def test_a_cookie_that_was_planted_is_not_signed_in(stranger_browser: Browser, ada: User) -> None:
    planted = new_secret("si")
    stranger_browser.be(planted)
    assert (await stranger_browser.sign_in()).status_code == 303
    stranger_browser.be(planted)
    assert "Sign in" in (await stranger_browser.authorize()).text


async def test_signing_in_again_ends_the_sign_in_before(
    stranger_browser: Browser, ada: User, engine: Engine, planner: App
) -> None:
    await stranger_browser.sign_in()
    first = stranger_browser.cookie
    assert first is not None
    page = hidden(await Browser(stranger_browser.http, planner).authorize())
    assert (await stranger_browser.post("sign-out", page)).status_code == 303
    await stranger_browser.sign_in()
    assert await sign_ins_kept(engine) == 1
    assert await engine.read(partial(sign_ins.find, value=first)) is None


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(stranger_browser: Browser) -> None:
    cookie = (await stranger_browser.authorize()).headers["Set-Cookie"]
    parts = cookie.split("; ")
    assert re.fullmatch(r"ledger_sign_in=si_[A-Za-z0-9]{32}", parts[0])
    assert set(parts[1:]) == {"HttpOnly", "Path=/", "SameSite=Lax"}


async def test_over_tls_the_cookie_is_for_this_host_and_tls_alone(
    app: Any, stranger_browser: Browser
) -> None:
    async with client_of(app, url="https://ledger.test") as client:
        cookie = (await Browser(client, stranger_browser.app).authorize()).headers["Set-Cookie"]
    parts = cookie.split("; ")
    assert parts[0].startswith("__Host-ledger_sign_in=si_")
    assert set(parts[1:]) == {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"}


async def test_a_sign_in_lasts_12_hours(browser: Browser, clock: ManualClock) -> None:
    clock.advance(12 * 3_600_000 - 1)
    assert 'value="allow"' in (await browser.authorize()).text
    clock.advance(1)
    assert "Sign in" in (await browser.authorize()).text


async def test_expired_sign_ins_are_cleared_away(
    browser: Browser, ada: User, engine: Engine, clock: ManualClock, sign_in_as: Any
) -> None:
    clock.advance(12 * 3_600_000)
    await sign_in_as(ada)
    assert await sign_ins_kept(engine) == 1


async def test_signing_in_clears_only_so_many_of_them_away(
    engine: Engine, ada: User, clock: ManualClock, sign_in_as: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_ins, "FORGOTTEN_AT_ONCE", 2)
    for _ in range(3):
        await sign_in_as(ada)
    clock.advance(12 * 3_600_000)
    await sign_in_as(ada)
    assert await sign_ins_kept(engine) == 2
    await sign_in_as(ada)
    assert await sign_ins_kept(engine) == 2


async def test_signing_out_asks_for_somebody_else(browser: Browser, engine: Engine) -> None:
    cookie = browser.cookie
    assert cookie is not None
    answer = await browser.post("sign-out", hidden(await browser.authorize()))
    assert answer.status_code == 303
    assert browser.cookie is None
    browser.be(cookie)
    assert "Sign in" in (await browser.authorize()).text
    assert await sign_ins_kept(engine) == 0


@pytest.mark.parametrize("how", ["deactivated", "a new password"])
async def test_a_user_is_signed_out_when(browser: Browser, ada: User, write: Any, how: str) -> None:
    if how == "deactivated":
        await write(users.deactivate, ada.id)
        await write(users.restore, ada.id)
    else:
        await write(passwords.set_password, EMAIL, passwords.hash_password("another password"))
    assert "Sign in" in (await browser.authorize()).text


# Forgery


@pytest.mark.parametrize("token", ["", "0" * 64, "é"])
async def test_a_form_without_its_token_is_refused(
    stranger_browser: Browser, ada: User, engine: Engine, token: str
) -> None:
    form = {**hidden(await stranger_browser.authorize()), "token": token}
    answer = await stranger_browser.post("sign-in", form, email=EMAIL, password=PASSWORD)
    assert answer.status_code == 403
    assert await sign_ins_kept(engine) == 0


async def test_nobody_is_signed_out_by_a_form_without_its_token(browser: Browser, engine: Engine) -> None:
    form = {**hidden(await browser.authorize()), "token": "0" * 64}
    answer = await browser.post("sign-out", form)
    assert answer.status_code == 403
    assert browser.cookie is not None
    assert await sign_ins_kept(engine) == 1


async def test_a_form_is_taken_from_the_browser_it_was_given_to_alone(
    stranger_browser: Browser, ada: User, engine: Engine
) -> None:
    """Nobody can sign others in to an account of their own choice."""
    form = hidden(await stranger_browser.authorize())
    for cookie in (None, new_secret("si"), "si_", form["token"]):
        stranger_browser.http.cookies.clear()
        if cookie is not None:
            stranger_browser.be(cookie)
        answer = await stranger_browser.post("sign-in", form, email=EMAIL, password=PASSWORD)
        assert answer.status_code == 403
    assert await sign_ins_kept(engine) == 0


async def test_a_refused_form_leads_back_to_a_good_one(stranger_browser: Browser, ada: User) -> None:
    answer = await stranger_browser.post("sign-in", stranger_browser.params, email=EMAIL, password=PASSWORD)
    assert answer.status_code == 403
    [path] = re.findall(r'href="(/oauth/authorize\?[^"]*)"', answer.text)
    assert (await stranger_browser.http.get(path.replace("&amp;", "&"))).status_code == 200


@pytest.mark.parametrize("name", ["next", "return_to", "continue", "url"])
@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "/v1/accounts"]
)
async def test_nobody_is_sent_elsewhere_by_what_is_in_the_form(
    stranger_browser: Browser, ada: User, name: str, target: str
) -> None:
    page = await stranger_browser.authorize()
    answer = await stranger_browser.post(
        "sign-in", {**hidden(page), name: target}, email=EMAIL, password=PASSWORD
    )
    assert answer.status_code == 303
    assert answer.headers["Location"].startswith("/oauth/authorize?client_id=")
    assert "evil" not in answer.headers["Location"]


async def test_the_request_in_the_form_is_checked_as_the_first_one_was(
    stranger_browser: Browser, ada: User
) -> None:
    form = {**hidden(await stranger_browser.authorize()), "redirect_uri": "https://evil.example/"}
    answer = await stranger_browser.post("sign-in", form, email=EMAIL, password=PASSWORD)
    assert (answer.status_code, "Location" in answer.headers) == (400, False)


@pytest.mark.parametrize("page", ["sign-in", "consent", "sign-out"])
@pytest.mark.parametrize("body", [b"", b"{}", b"client_id=%ff", b"x" * 1000, b"a=1&" * 200])
async def test_a_foreign_form_is_an_error_page(browser: Browser, page: str, body: bytes) -> None:
    answer = await browser.http.post(f"/oauth/{page}", content=body)
    assert answer.status_code == 400
    assert answer.headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("page", ["sign-in", "consent", "sign-out"])
async def test_a_form_is_not_got(browser: Browser, page: str) -> None:
    answer = await browser.http.get(f"/oauth/{page}", params=browser.params)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


# What it costs


async def test_passwords_are_checked_beside_the_loop_and_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks, begun, go = PasswordChecks(), threading.Semaphore(0), threading.Event()

    def slow(login: Login | None, password: str) -> bool:
        begun.release()
        return go.wait(30) and threading.current_thread() is not threading.main_thread()

    monkeypatch.setattr(passwords, "is_right", slow)
    waiting = [asyncio.ensure_future(checks.is_right(None, "x")) for _ in range(WAITING_MAX)]
    for _ in range(CHECKED_AT_ONCE):
        assert await asyncio.to_thread(begun.acquire, timeout=30)
    assert not begun.acquire(blocking=False)
    go.set()
    assert await asyncio.gather(*waiting) == [True] * WAITING_MAX


async def test_a_flood_is_refused_and_those_before_it_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, go = PasswordChecks(), threading.Event()
    monkeypatch.setattr(passwords, "is_right", lambda login, password: go.wait(30))
    waiting = [asyncio.ensure_future(checks.is_right(None, "x")) for _ in range(WAITING_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyChecks):
        await checks.is_right(None, "x")
    go.set()
    assert await asyncio.gather(*waiting) == [True] * WAITING_MAX
    assert await checks.is_right(None, "x") is True


async def test_a_request_refused_for_its_rate_says_when_to_retry(
    stranger_browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger_engine.http.pages.views.WAITING_MAX", 0)
    answer = await stranger_browser.sign_in()
    # Retry-After comes with a 429 alone (docs/interface.md#rates-retry-after).
    assert (answer.status_code, "Retry-After" in answer.headers) == (503, False)
    assert answer.headers["Content-Type"].startswith("text/html")


async def test_lost_storage_is_reported_on_a_page(stranger_browser: Browser, engine: Engine) -> None:
    form = hidden(await stranger_browser.authorize())
    await engine.close()
    answer = await stranger_browser.post("sign-in", form, email=EMAIL, password=PASSWORD)
    assert answer.status_code == 503
    assert answer.headers["Content-Type"].startswith("text/html")


async def test_an_internal_error_shows_its_number_and_no_internals(
    stranger_browser: Browser, ada: User, engine: Engine
) -> None:
    form = hidden(await stranger_browser.authorize())
    await engine.write(lambda unit: unit.execute("ALTER TABLE sign_ins RENAME TO secret_plans"))
    answer = await stranger_browser.post("sign-in", form, email=EMAIL, password=PASSWORD)
    assert answer.status_code == 500
    assert answer.headers["Request-Id"] in answer.text
    assert "sign_ins" not in answer.text
    assert PASSWORD not in answer.text


# What every page carries


@pytest.mark.parametrize("page", ["sign in", "consent", "message", "redirect", "refused"])
async def test_every_page_is_guarded(
    browser: Browser, stranger_browser: Browser, ada: User, page: str
) -> None:
    answer = await {
        "sign in": stranger_browser.authorize,
        "consent": browser.authorize,
        "message": partial(browser.authorize, client_id="x"),
        "redirect": browser.decide,
        "refused": partial(stranger_browser.sign_in, password="x"),
    }[page]()
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "script-src" not in policy
    assert policy["style-src"] == "'self'"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "<script" not in answer.text
    assert "style=" not in answer.text


async def test_the_style_sheet_is_there(stranger_browser: Browser) -> None:
    answer = await stranger_browser.http.get("/oauth/style.css")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/css; charset=utf-8")
    assert "prefers-color-scheme: dark" in answer.text
    assert "url(" not in answer.text
