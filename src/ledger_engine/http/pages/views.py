"""The pages on which a user signs in and decides what an app may do (docs/decisions.md#oauth).

Between two pages the server stores only the sign-in. Each form contains the app's whole authorization
request, and the server checks the request every time. So there is no stored redirect address that somebody
could replace. The server computes the one-time code from the consent form and the browser's cookie. So a form
that is sent twice, for instance by a double click, issues only one code.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlencode, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from quart import Blueprint, Request, Response, request

from ledger_engine.access import projects
from ledger_engine.access.api_keys import SECRET_LENGTH, new_secret
from ledger_engine.access.oauth import passwords, sign_ins
from ledger_engine.access.oauth.authorization import AuthorizationRequest, RefusedToApp, consider, decide
from ledger_engine.access.oauth.grants import AnsweredBefore
from ledger_engine.access.oauth.passwords import Login
from ledger_engine.access.oauth.server import GRANT_TYPES
from ledger_engine.core.errors import InvalidRequest, LedgerError, NotFound
from ledger_engine.core.records import dumps
from ledger_engine.core.tenant import SCOPES
from ledger_engine.http.bodies import pairs_of
from ledger_engine.http.errors import status_of
from ledger_engine.http.gate.proxies import parse_address
from ledger_engine.http.operations import Call, call_of, refusal_answer

# Pages: rendered from the templates in this package, all with the same security headers


_TEMPLATES = Path(__file__).with_name("templates")
_environment = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
# The headers and the policy forbid scripts, content from other servers, framing, caching, and the referrer to
# other sites.
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_POLICY = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'"


def page(template: str, status: int = 200, *, forms_lead_to: str = "'none'", **values: object) -> Response:
    """Return a page that is rendered from a template.

    `forms_lead_to` is a list of sources, as in a Content-Security-Policy. The browser sends the page's forms
    only to these sources. If the answer to a form is a redirect, the browser follows the redirect only to
    these sources.
    """
    return Response(
        _environment.get_template(template).render(values),
        status=status,
        content_type="text/html; charset=utf-8",
        headers=_security_headers(forms_lead_to),
    )


def message(status: int, title: str, text: str, *, back: str | None = None) -> Response:
    """Return a page that explains why the sign-in cannot continue.

    `back`, if given, is the address of a link for another attempt.
    """
    return page("message.html", status, title=title, text=text, back=back)


def redirect(location: str, status: int = 303) -> Response:
    """Return a redirect to `location`.

    With the status 303, the browser does not send a form again to the new address (RFC 9700, 4.12).
    """
    headers = {**_security_headers("'none'"), "Location": location}
    return Response(HTTPStatus(status).phrase, status=status, content_type="text/plain", headers=headers)


@cache
def style() -> str:
    """Return the style sheet of all pages."""
    return (_TEMPLATES / "style.css").read_text(encoding="utf-8")


def _security_headers(forms_lead_to: str) -> dict[str, str]:
    return {**_HEADERS, "Content-Security-Policy": f"{_POLICY}; form-action {forms_lead_to}"}


# This server's own address, and the metadata that apps find there (RFC 8414)


_HOST = re.compile(r"([A-Za-z0-9\-._]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


class Issuer:
    """The issuer: this server's own address, under which apps know the server (RFC 8414, 9207).

    The issuer is `address` if the operator has set an address. Otherwise the issuer is the address to which
    the request was sent. In this case the host must be an IP address, `localhost` or the name `host` on which
    the server listens. Any other name may belong to a stranger who pointed the name at this machine. An app
    that trusts the name could later talk to the stranger's server.
    """

    def __init__(self, address: str | None = None, host: str | None = None) -> None:
        self._own_address = None if address is None else address.rstrip("/")
        self._names = {"localhost", host}

    def of(self, incoming: Request) -> str:
        """Return the issuer for this request. Raises InvalidRequest for a name that could be a stranger's."""
        if self._own_address is not None:
            return self._own_address
        host = _HOST.fullmatch(incoming.host)
        if host is None or not (host[1].lower() in self._names or parse_address(host[1])):
            raise InvalidRequest(
                "invalid_value",
                f"{incoming.host!r} is not a name of this server. The operator can set it with --issuer.",
            )
        return f"{incoming.scheme}://{incoming.host}"


def metadata(issuer: str) -> dict[str, Any]:
    """Return the metadata of this server (RFC 8414)."""
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/oauth/authorize",
        "token_endpoint": f"{issuer}/oauth/token",
        "revocation_endpoint": f"{issuer}/oauth/revoke",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANT_TYPES),
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": f"{issuer}/docs",
    }


# Signing in and deciding


# How many passwords are checked at a time. A check takes 64 MB, and keeps several processors busy for a
# while.
CHECKED_AT_ONCE = 2
WAITING_MAX = 50  # checks that are running or waiting; the server refuses a further check
_COOKIE = re.compile(rf"si_[A-Za-z0-9]{{{SECRET_LENGTH}}}")
# The words for each scope on the consent page (docs/interface.md#scopes; docs/decisions.md#credentials).
_MEANINGS = {
    "read:projects": ("View the books", "accounts, transactions, invoices, orders"),
    "write:projects": ("Make changes", "post, invoice, take orders, manage users and projects"),
    "read:users": ("View the users", "names, email addresses and roles"),
    "admin:billing": ("View and change the plan", "and with it the limits of this ledger"),
}

log = logging.getLogger("ledger_engine.http")


class TooManyChecks(Exception):
    """Too many password checks are waiting for their turn."""


class PasswordChecks:
    """Checks passwords in threads, CHECKED_AT_ONCE at a time; up to WAITING_MAX checks may wait or run."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(CHECKED_AT_ONCE)
        self._waiting = 0

    async def is_right(self, login: Login | None, password: str) -> bool:
        """Return whether the password belongs to the login. For a login of None, return False.

        A check takes equally long for every login and for None. So the time of the answer does not tell
        whether an email address exists. Raises TooManyChecks.
        """
        if self._waiting >= WAITING_MAX:
            raise TooManyChecks
        self._waiting += 1
        try:
            async with self._slots:
                return await asyncio.to_thread(passwords.is_right, login, password)
        finally:
            self._waiting -= 1


class SignInPages:
    """The sign-in pages of one application."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer
        self._checks = PasswordChecks()

    def blueprint(self) -> Blueprint:
        """Return the routes of the pages."""
        blueprint = Blueprint("sign_in", __name__)
        blueprint.get("/oauth/authorize")(self.authorize)
        blueprint.post("/oauth/sign-in")(self.sign_in)
        blueprint.post("/oauth/consent")(self.consent)
        blueprint.post("/oauth/sign-out")(self.sign_out)
        blueprint.get("/oauth/style.css")(_style)
        blueprint.get("/.well-known/oauth-authorization-server")(self.metadata)
        blueprint.register_error_handler(RefusedToApp, self.redirect_to_app)
        blueprint.register_error_handler(TooManyChecks, _show_too_many_checks)
        blueprint.register_error_handler(LedgerError, _show_error)
        blueprint.register_error_handler(Exception, _show_failure)
        return blueprint

    async def authorize(self) -> Response:
        """Ask the user to allow or refuse the app's request, after signing in if needed."""
        call, cookie = call_of(request), _cookie()
        authorization = await self._read_authorization(call, request.query_string, cookie)
        if cookie is None or authorization.user is None:
            return await _sign_in_page(call, authorization)
        token = _token(cookie, authorization, "consent", token_urlsafe())
        scopes = [(scope, *_MEANINGS[scope]) for scope in authorization.scopes]
        fields = {"user": authorization.user, "scopes": scopes, "destination": _origin(authorization)}
        return await _form_page("consent.html", 200, call, authorization, token, **fields)

    async def sign_in(self) -> Response:
        """Sign the user in, and redirect the browser to the page that asks for the decision.

        An unknown email address and a wrong password get the same answer.
        """
        call = call_of(request)
        authorization = await self._read_authorization(call, call.body)
        if not _is_ours(call, authorization, "sign-in"):
            return _out_of_date(authorization)
        fields = dict(pairs_of(call.body))
        email, password = fields.get("email", "").strip(), fields.get("password", "")
        app = authorization.app
        login = await call.engine.read(
            partial(passwords.find, project=app.project, livemode=app.livemode, email=email)
        )
        if not await self._checks.is_right(login, password) or login is None:
            return await _sign_in_page(call, authorization, email=email, is_refused=True)
        value = new_secret("si")
        began = await call.engine.write(
            partial(
                sign_ins.begin,
                user=login.user,
                password_hash=login.password_hash,
                value=value,
                replaces=_cookie(),
            )
        )
        if not began:
            return await _sign_in_page(call, authorization, email=email, is_refused=True)
        return _with_cookie(_restart(authorization), value)

    async def consent(self) -> Response:
        """Redirect the browser to the app with the user's decision."""
        call = call_of(request)
        cookie = _cookie()
        authorization = await self._read_authorization(call, call.body, cookie)
        if cookie is None or not _is_ours(call, authorization, "consent"):
            return _out_of_date(authorization)
        if authorization.user is None:
            return _restart(authorization)
        fields = dict(pairs_of(call.body))
        code = _code(cookie, fields["token"]) if fields.get("decision") == "allow" else None
        try:
            await call.engine.write(partial(decide, authorization=authorization, sign_in=cookie, code=code))
        except AnsweredBefore:
            return message(
                409,
                "You have already answered",
                "Go back to the app. If it still waits for you, try again here.",
                back=_authorize_path(authorization),
            )
        assert code is not None, "a refusal raises an exception"
        answer = {"code": code, "state": authorization.state, "iss": self._issuer.of(request)}
        return redirect(_address(authorization.redirect_uri, answer))

    async def sign_out(self) -> Response:
        """Sign the user out, so that another user can sign in and decide."""
        call = call_of(request)
        authorization = await self._read_authorization(call, call.body)
        cookie = _cookie()
        if cookie is None or not _is_ours(call, authorization, "consent"):
            return _out_of_date(authorization)
        await call.engine.write(partial(sign_ins.end, value=cookie))
        response = _restart(authorization)
        response.delete_cookie(
            _cookie_name(), path="/", secure=request.is_secure, httponly=True, samesite="Lax"
        )
        return response

    async def metadata(self) -> Response:
        """Return the metadata (RFC 8414), which the OAuth library of an app reads first."""
        try:
            fields = metadata(self._issuer.of(request))
        except LedgerError as error:  # a program reads this answer, so the error is not a page
            return refusal_answer(error)
        return Response(dumps(fields), content_type="application/json")

    async def redirect_to_app(self, refusal: RefusedToApp) -> Response:
        """Redirect the browser to the app with an error."""
        status = 302 if request.method == "GET" else 303
        state = {} if refusal.state is None else {"state": refusal.state}
        error = {"error": refusal.error, "error_description": refusal.description, **state}
        address = _address(refusal.redirect_uri, {**error, "iss": self._issuer.of(request)})
        return redirect(address, status)

    async def _read_authorization(
        self, call: Call, raw: bytes, sign_in: str | None = None
    ) -> AuthorizationRequest:
        """Return the app's authorization request, which is in the query or form `raw`.

        `sign_in` is the value of the browser's sign-in cookie. Raises the exceptions of `consider` and
        `Issuer.of`.
        """
        self._issuer.of(request)  # raises InvalidRequest: without an issuer the server cannot answer any app
        authorization = await call.engine.read(partial(consider, parameters=pairs_of(raw), sign_in=sign_in))
        if sign_in is not None and authorization.user is None:
            end = await call.engine.read(partial(sign_ins.expired_at, value=sign_in))
            # If there is an `end`, the sign-in has expired. The ledger's clock never starts before a stored
            # time. So store `end`: then the sign-in stays expired, even if the machine's clock is set back
            # before a restart.
            if end is not None:
                await call.engine.keep_time(end)
        return authorization


# Pages


async def _sign_in_page(
    call: Call, authorization: AuthorizationRequest, *, email: str = "", is_refused: bool = False
) -> Response:
    cookie = _cookie()
    value = cookie or new_secret("si")
    token, status = _token(value, authorization, "sign-in"), 401 if is_refused else 200
    fields = {"email": email, "refused": is_refused}
    response = await _form_page("sign_in.html", status, call, authorization, token, **fields)
    return response if cookie else _with_cookie(response, value)


async def _form_page(
    template: str, status: int, call: Call, authorization: AuthorizationRequest, token: str, **fields: object
) -> Response:
    """Return a page with a form. The form contains the app's whole authorization request and the token."""
    project = await call.engine.read(partial(projects.get, id=authorization.app.project))
    # Chromium applies form-action to every redirect after a form is sent, even to redirects by the app, so
    # `https:` allows the app's own redirects.
    return page(
        template,
        status,
        forms_lead_to=f"'self' https: {_origin(authorization)}",
        app=authorization.app,
        project=project.name,
        parameters=authorization.parameters(),
        token=token,
        **fields,
    )


def _out_of_date(authorization: AuthorizationRequest) -> Response:
    return message(
        403,
        "This page is out of date",
        "The form did not come from this site, or your browser no longer sends the cookie of this site."
        " Signing in needs cookies.",
        back=_authorize_path(authorization),
    )


def _restart(authorization: AuthorizationRequest) -> Response:
    return redirect(_authorize_path(authorization))


def _authorize_path(authorization: AuthorizationRequest) -> str:
    return f"/oauth/authorize?{urlencode(authorization.parameters())}"


async def _style() -> Response:
    headers = {"Cache-Control": "public, max-age=3600", "X-Content-Type-Options": "nosniff"}
    return Response(style(), content_type="text/css; charset=utf-8", headers=headers)


# Errors


async def _show_error(error: LedgerError) -> Response:
    status = 400 if isinstance(error, NotFound) else status_of(error)
    text = f"{error.message} Nothing was sent to the app. You can close this page."
    return message(status, "This sign-in cannot continue", text)


async def _show_too_many_checks(_: TooManyChecks) -> Response:
    return message(503, "Many people are signing in", "Go back in a moment and try again.")


async def _show_failure(error: Exception) -> Response:
    request_id = call_of(request).request_id
    log.error("request %s failed", request_id, exc_info=error)
    return message(500, "The server failed", f"The id of this request is {request_id}.")


# Cookies and the tokens of forms


def _cookie_name() -> str:
    # The name contains the port, because a browser sends a host's cookies to all ports of the host. If two
    # ledgers on a machine used the same name, each ledger would sign out the users of the other ledger. The
    # prefix `__Host-`, which needs TLS, makes the browser refuse a cookie of this name from another host of
    # the same domain.
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


def _token(cookie: str, authorization: AuthorizationRequest, purpose: str, nonce: str = "") -> str:
    """Return the token that a form for this authorization request must contain.

    The token can be made only with the cookie. The `nonce` distinguishes two forms for the same request.
    """
    return f"{nonce}.{_keyed_hash(cookie, [purpose, nonce, authorization.parameters()])}"


def _is_ours(call: Call, authorization: AuthorizationRequest, purpose: str) -> bool:
    """Return whether the form that was sent was made for this browser and this authorization request."""
    cookie, token = _cookie(), dict(pairs_of(call.body)).get("token", "")
    if cookie is None:
        return False
    own_token = _token(cookie, authorization, purpose, token.partition(".")[0])
    return hmac.compare_digest(token.encode(), own_token.encode())


def _code(cookie: str, token: str) -> str:
    """Return the one-time code that the consent form with this token issues."""
    return f"ac_{_keyed_hash(cookie, ['code', token])[:SECRET_LENGTH]}"


def _keyed_hash(cookie: str, values: list[object]) -> str:
    return hmac.new(cookie.encode(), dumps(values).encode(), "sha256").hexdigest()


def _origin(authorization: AuthorizationRequest) -> str:
    """Return the origin of the app's redirect address, as a source in a Content-Security-Policy."""
    parts = urlsplit(authorization.redirect_uri)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def _address(uri: str, answer: dict[str, str]) -> str:
    """Return the URI with the answer added to its query; the rest of the query stays (RFC 6749, 4.1.2)."""
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(answer)}"
