"""An app, a user, and a browser that takes the user from one to the other."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from quart import Quart

from ledger_engine.access.api_keys import new_secret
from ledger_engine.access.oauth import apps, passwords, sign_ins
from ledger_engine.access.oauth.apps import App, NewApp
from ledger_engine.access.oauth.passwords import Login
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.app import create_app
from ledger_engine.http.gate.gate import AuthRateLimit
from ledger_engine.http.pages.views import Issuer
from ledger_engine.ledger import users
from ledger_engine.ledger.users import User
from ledger_engine.store.engine import Engine
from tests.ledger_engine.access.oauth.serving import cheap_passwords
from tests.ledger_engine.in_process import client_of

BASE = "http://ledger.test"
REDIRECT = "https://app.example/callback"
LOOPBACK = "http://127.0.0.1/callback"
EMAIL = "ada@example.com"
PASSWORD = "correct horse battery"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # RFC 7636, appendix B
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
STATE = "xyz & <b>'\"</b>"
SCOPES = "read:projects write:projects"

hash_of_password = cache(lambda: passwords.hash_password(PASSWORD))
MakeUser = Callable[..., Awaitable[User]]


@pytest.fixture(autouse=True, scope="module")
def passwords_are_cheap() -> Iterator[None]:
    with cheap_passwords():
        yield


@pytest.fixture
def app(engine: Engine) -> Quart:
    """Return an application in which each request has a new minute, so that none exceeds its rate limit."""
    return create_app(
        engine,
        issuer=Issuer(BASE),
        auth_rate_limit=AuthRateLimit(1_000_000, 1_000_000),
        wall_clock=partial(next, itertools.count(0, 60)),
    )


@pytest.fixture
async def planner(engine: Engine, tenant: Tenant) -> App:
    """Return an app of the project's test mode."""
    return await engine.write(
        partial(apps.create, tenant=tenant, new=NewApp("Café Planner", [REDIRECT, LOOPBACK], native=True))
    )


@pytest.fixture
def make_user(engine: Engine, tenant: Tenant) -> MakeUser:
    """Return a function that creates a user with a password."""

    async def make(email: str = EMAIL, role: str = "admin", by: Tenant = tenant) -> User:
        new = users.NewUser("Ada Lind", email, role)
        user = await engine.write(partial(users.create, tenant=by, new=new))
        await engine.write(
            partial(passwords.set_password, tenant=by, email=email, password_hash=hash_of_password())
        )
        return user

    return make


@pytest.fixture
async def ada(make_user: MakeUser) -> User:
    return await make_user()


@pytest.fixture
async def sign_in_as(engine: Engine) -> Callable[[User], Awaitable[str]]:
    """Return a function that signs a user in without the page, and returns the browser's cookie."""

    async def sign_in(user: User) -> str:
        login, value = Login(user.id, hash_of_password()), new_secret("si")
        began = await engine.write(
            partial(
                sign_ins.begin, user=login.user, password_hash=login.password_hash, value=value, replaces=None
            )
        )
        assert began
        return value

    return sign_in


def hidden(page: httpx.Response) -> dict[str, str]:
    """Return the hidden fields of the page's first form."""
    form = page.text.partition("<form")[2].partition("</form>")[0]
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)
    return {name: html.unescape(value) for name, value in found}


def redirect_query(answer: httpx.Response) -> dict[str, str]:
    """Return the query of a redirect's address."""
    return dict(parse_qsl(urlsplit(answer.headers["Location"]).query, keep_blank_values=True))


@dataclass
class Browser:
    """A browser, with the parameters of the app's request in it."""

    http: httpx.AsyncClient
    app: App
    params: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.params = {
            "client_id": self.app.id,
            "redirect_uri": REDIRECT,
            "scope": SCOPES,
            "state": STATE,
            "code_challenge": CHALLENGE,
        }

    @property
    def cookie(self) -> str | None:
        return self.http.cookies.get("ledger_sign_in")

    def be(self, cookie: str) -> None:
        """Become the browser with this cookie."""
        self.http.cookies.set("ledger_sign_in", cookie, domain="ledger.test")

    async def authorize(self, **changed: str | None) -> httpx.Response:
        """Open the address that the app sends its users to; parameters that are None are left out."""
        params = {name: value for name, value in {**self.params, **changed}.items() if value is not None}
        return await self.http.get("/oauth/authorize", params=params)

    async def sign_in(
        self, email: str = EMAIL, password: str = PASSWORD, **changed: str | None
    ) -> httpx.Response:
        """Fill in the sign-in form and send it."""
        page = await self.authorize(**changed)
        assert page.status_code == 200, page.text
        return await self.post("sign-in", hidden(page), email=email, password=password)

    async def decide(self, decision: str = "allow", **changed: str | None) -> httpx.Response:
        """Send a decision on the consent page."""
        page = await self.authorize(**changed)
        assert page.status_code == 200, page.text
        return await self.post("consent", hidden(page), decision=decision)

    async def post(self, page: str, form: dict[str, str], **fields: str) -> httpx.Response:
        return await self.http.post(f"/oauth/{page}", data={**form, **fields})

    async def code(self, **changed: str | None) -> str:
        """Return a newly issued code."""
        answer = await self.decide(**changed)
        assert answer.status_code == 303, answer.text
        return redirect_query(answer)["code"]

    async def exchange(self, **given: Any) -> httpx.Response:
        """Exchange at the token endpoint, as an app's server does."""
        return await self.http.post("/oauth/token", json=given)

    async def tokens(self, **changed: str | None) -> dict[str, Any]:
        """Return the tokens for a newly issued code."""
        answer = await self.exchange(code=await self.code(**changed), code_verifier=VERIFIER)
        assert answer.status_code == 200, answer.text
        token: dict[str, Any] = answer.json()
        return token

    async def refresh(self, refresh_token: str, **more: str) -> httpx.Response:
        return await self.exchange(grant_type="refresh_token", refresh_token=refresh_token, **more)

    async def use(self, access_token: str, path: str = "/v1/whoami", method: str = "GET") -> httpx.Response:
        headers = {"Authorization": f"Bearer {access_token}"}
        return await self.http.request(method, path, headers=headers)


@pytest.fixture
async def stranger_browser(app: Quart, planner: App) -> AsyncIterator[Browser]:
    """Return a browser in which nobody is signed in."""
    async with client_of(app, url=BASE) as client:
        yield Browser(client, planner)


@pytest.fixture
async def browser(
    app: Quart, planner: App, ada: User, sign_in_as: Callable[[User], Awaitable[str]]
) -> AsyncIterator[Browser]:
    """Return a browser in which Ada is signed in."""
    async with client_of(app, url=BASE) as client:
        browser = Browser(client, planner)
        browser.be(await sign_in_as(ada))
        yield browser
