"""The pages on which a user signs in and decides what an app may do (decisions.md 11).

Nothing is kept between two of them but who is signed in: each form holds the whole request, and it is
checked anew each time. So there is no address to be sent on to that somebody could have put there.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from functools import partial
from urllib.parse import urlencode

from quart import Blueprint, Response, request

from ledger_engine.access import projects
from ledger_engine.access.api_keys import SECRET_LENGTH, new_secret
from ledger_engine.access.oauth import grants, passwords, sign_ins
from ledger_engine.access.oauth.authorization import Asked, ToldToApp, decide
from ledger_engine.access.oauth.passwords import Login
from ledger_engine.access.oauth.sign_ins import SignedIn
from ledger_engine.core.errors import LedgerError, NotFound
from ledger_engine.core.records import dumps
from ledger_engine.http.bodies import pairs_of
from ledger_engine.http.errors import status_of
from ledger_engine.http.operations import Call, call_of
from ledger_engine.http.routes import oauth
from ledger_engine.http.sign_in import authorize_requests, html_pages

CHECKED_AT_ONCE = 2  # passwords; each takes 64 MB and a few processors for a while
WAITING_MAX = 50
_COOKIE = re.compile(rf"si_[A-Za-z0-9]{{{SECRET_LENGTH}}}")
_HOST = re.compile(r"([A-Za-z0-9\-._]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
# What each scope means to the one who is asked (interface.md, Authentication 8; decisions.md 4).
_MEANINGS = {
    "read:projects": ("See the books", "accounts, transactions, invoices, orders"),
    "write:projects": ("Make changes", "post, invoice, take orders, manage users and projects"),
    "read:users": ("See the people", "names, email addresses and roles"),
    "admin:billing": ("See and change the plan", "and with it the limits of this ledger"),
}

log = logging.getLogger("ledger_engine.http")


class Crowded(Exception):
    """More passwords wait to be checked than can be in a reasonable time."""


class PasswordChecks:
    """Checks passwords beside the event loop, a few at a time; a flood of them waits here or is refused."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(CHECKED_AT_ONCE)
        self._waiting = 0

    async def is_right(self, login: Login | None, password: str) -> bool:
        """Whether the password is the login's, in the same time for every login; raises Crowded."""
        if self._waiting >= WAITING_MAX:
            raise Crowded
        self._waiting += 1
        try:
            async with self._places:
                return await asyncio.to_thread(passwords.is_right, login, password)
        finally:
            self._waiting -= 1


class SignInPages:
    """The pages of one application."""

    def __init__(self) -> None:
        self._checks = PasswordChecks()

    def blueprint(self) -> Blueprint:
        """Where the pages are."""
        blueprint = Blueprint("sign_in", __name__)
        blueprint.get("/oauth/authorize")(self.authorize)
        blueprint.post("/oauth/sign-in")(self.sign_in)
        blueprint.post("/oauth/consent")(self.consent)
        blueprint.post("/oauth/sign-out")(self.sign_out)
        blueprint.get("/oauth/style.css")(_style)
        blueprint.get("/.well-known/oauth-authorization-server")(_metadata)
        blueprint.register_error_handler(ToldToApp, _tell_app)
        blueprint.register_error_handler(Crowded, _show_crowded)
        blueprint.register_error_handler(LedgerError, _show_error)
        blueprint.register_error_handler(Exception, _show_failure)
        return blueprint

    async def authorize(self) -> Response:
        """Ask the user whether the app may have what it asks for; who they are comes first."""
        call = call_of(request)
        asked = await _asked(call, request.query_string, _cookie())
        if asked.user is None:
            return await _sign_in_page(call, asked)
        return await _consent_page(call, asked, asked.user)

    async def sign_in(self) -> Response:
        """Sign the user in, and ask then. An address nobody has and a wrong password are answered alike."""
        call = call_of(request)
        asked = await _asked(call, call.body)
        if not _is_ours(call, asked, "sign-in"):
            return _out_of_date(asked)
        fields = dict(pairs_of(call.body))
        email, password = fields.get("email", "").strip(), fields.get("password", "")
        login = await call.engine.read(
            partial(passwords.find, project=asked.app.project, livemode=asked.app.livemode, email=email)
        )
        if not await self._checks.is_right(login, password) or login is None:
            return await _sign_in_page(call, asked, email=email, refused=True)
        value = new_secret("si")
        began = await call.engine.write(
            partial(sign_ins.begin, user=login.user, hashed=login.hashed, value=value, replaces=_cookie())
        )
        if not began:
            return await _sign_in_page(call, asked, email=email, refused=True)
        return _with_cookie(_ask_again(asked), value)

    async def consent(self) -> Response:
        """Tell the app what the user decided."""
        call = call_of(request)
        cookie = _cookie()
        asked = await _asked(call, call.body, cookie)
        if cookie is None or not _is_ours(call, asked, "consent"):
            return _out_of_date(asked)
        if asked.user is None:
            return _ask_again(asked)
        code = grants.new_code() if dict(pairs_of(call.body)).get("decision") == "allow" else None
        await call.engine.write(partial(decide, asked=asked, sign_in=cookie, code=code))
        assert code is not None, "a no is raised"
        return html_pages.redirect(authorize_requests.answer(asked, _issuer(), code=code))

    async def sign_out(self) -> Response:
        """Sign the user out, so that somebody else can sign in and decide."""
        call = call_of(request)
        asked = await _asked(call, call.body)
        cookie = _cookie()
        if cookie is None or not _is_ours(call, asked, "consent"):
            return _out_of_date(asked)
        await call.engine.write(partial(sign_ins.end, value=cookie))
        response = _ask_again(asked)
        response.delete_cookie(
            _cookie_name(), path="/", secure=request.is_secure, httponly=True, samesite="Lax"
        )
        return response


# Pages


async def _sign_in_page(call: Call, asked: Asked, *, email: str = "", refused: bool = False) -> Response:
    cookie = _cookie()
    value = cookie or new_secret("si")
    response = html_pages.page(
        "sign_in.html",
        401 if refused else 200,
        forms_lead_to=_leading_to(asked),
        app=asked.app,
        project=await _project_name(call, asked),
        parameters=asked.parameters(),
        token=_token(value, asked, "sign-in"),
        email=email,
        refused=refused,
    )
    return response if cookie else _with_cookie(response, value)


async def _consent_page(call: Call, asked: Asked, user: SignedIn) -> Response:
    cookie = _cookie()
    assert cookie is not None, "somebody is signed in"
    return html_pages.page(
        "consent.html",
        forms_lead_to=_leading_to(asked),
        app=asked.app,
        project=await _project_name(call, asked),
        user=user,
        scopes=[(scope, *_MEANINGS[scope]) for scope in asked.scopes],
        destination=authorize_requests.origin(asked),
        parameters=asked.parameters(),
        token=_token(cookie, asked, "consent"),
    )


def _out_of_date(asked: Asked) -> Response:
    return html_pages.message(
        403,
        "This page is out of date",
        "It was not sent from here, or your browser has forgotten it. It needs cookies to remember.",
        back=_authorize_path(asked),
    )


def _ask_again(asked: Asked) -> Response:
    return html_pages.redirect(_authorize_path(asked))


def _authorize_path(asked: Asked) -> str:
    return f"/oauth/authorize?{urlencode(asked.parameters())}"


def _leading_to(asked: Asked) -> str:
    # Chromium holds form-action against every redirect that follows a form, beyond the app's first
    # address too: https: lets the app send its user on.
    return f"'self' https: {authorize_requests.origin(asked)}"


async def _style() -> Response:
    headers = {"Cache-Control": "public, max-age=3600", "X-Content-Type-Options": "nosniff"}
    return Response(html_pages.style(), content_type="text/css; charset=utf-8", headers=headers)


async def _metadata() -> Response:
    return Response(dumps(oauth.metadata(_issuer())), content_type="application/json")


# Refusals


async def _tell_app(told: ToldToApp) -> Response:
    return html_pages.redirect(
        authorize_requests.refusal(told, _issuer()), 302 if request.method == "GET" else 303
    )


async def _show_error(error: LedgerError) -> Response:
    status = 400 if isinstance(error, NotFound) else status_of(error)
    text = f"{error.message} Nothing was sent to the app. You can close this page."
    return html_pages.message(status, "This cannot go on", text)


async def _show_crowded(_: Crowded) -> Response:
    response = html_pages.message(503, "Many people are signing in", "Go back in a moment and try again.")
    response.headers["Retry-After"] = "1"
    return response


async def _show_failure(error: Exception) -> Response:
    request_id = call_of(request).request_id
    log.error("request %s failed", request_id, exc_info=error)
    return html_pages.message(500, "Something went wrong on our side", f"Its number is {request_id}.")


# Who asks


async def _asked(call: Call, raw: bytes, sign_in: str | None = None) -> Asked:
    """The request in a query or a form; raises what `authorization.read` does."""
    _issuer()  # without an address of its own this server can answer no app
    return await authorize_requests.read(call.engine, raw, sign_in)


async def _project_name(call: Call, asked: Asked) -> str:
    return (await call.engine.read(partial(projects.get, id=asked.app.project))).name


def _cookie_name() -> str:
    # A browser sends a host's cookies to all its ports: with one name, each of two ledgers on a machine would
    # sign the users of the other out. The prefix has it see to it that no other site can set the cookie; it
    # goes with TLS alone.
    port = request.host.rpartition(":")[2]
    name = f"ledger_sign_in_{port}" if port.isdecimal() else "ledger_sign_in"
    return f"__Host-{name}" if request.is_secure else name


def _cookie() -> str | None:
    value = request.cookies.get(_cookie_name(), "")
    return value if _COOKIE.fullmatch(value) else None


def _with_cookie(response: Response, value: str) -> Response:
    response.set_cookie(
        _cookie_name(), value, path="/", secure=request.is_secure, httponly=True, samesite="Lax"
    )
    return response


def _token(cookie: str, asked: Asked, purpose: str) -> str:
    """What a form has to bring along: only who knows the cookie can make it, and for this request alone."""
    told = dumps([purpose, asked.parameters()])
    return hmac.new(cookie.encode(), told.encode(), "sha256").hexdigest()


def _is_ours(call: Call, asked: Asked, purpose: str) -> bool:
    """Whether the form is one that this browser was given for this request."""
    cookie, given = _cookie(), dict(pairs_of(call.body)).get("token", "")
    return cookie is not None and hmac.compare_digest(given.encode(), _token(cookie, asked, purpose).encode())


def _issuer() -> str:
    """This server's address as the browser knows it; raises NotFound for a Host header that is no host."""
    if not _HOST.fullmatch(request.host):
        raise NotFound("host", request.host)
    return f"{request.scheme}://{request.host}"
